"""Traces of the Agents SDK have one span for each call, and nothing of speculations."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

pytest.importorskip("agents", reason="needs the extra openai-agents")

from agents import (
    RunConfig,
    TracingProcessor,
    custom_span,
    function_tool,
    get_current_span,
    set_trace_processors,
)
from agents.models.interface import Model
from agents.tracing import get_trace_provider

from agentrt import speculable
from agentrt.adapters.openai_agents import speculate
from tests.adapters.openai_agents.doubles import Drafts, Runs, agent, calling, model, run, saying
from tests.adapters.openai_agents.doubles import look as draft

pytestmark = pytest.mark.usefixtures("prediction_is_free")


class Recorder(TracingProcessor):
    """Notes the spans that end, in order."""

    def __init__(self) -> None:
        self.spans: list[str] = []

    def on_span_end(self, span: Any) -> None:
        exported = span.span_data.export()
        self.spans.append(f"{exported['type']} {exported.get('name')} {exported.get('output')}")

    def on_span_start(self, span: Any) -> None: ...
    def on_trace_start(self, trace: Any) -> None: ...
    def on_trace_end(self, trace: Any) -> None: ...
    def shutdown(self) -> None: ...
    def force_flush(self) -> None: ...


@contextmanager
def recording() -> Iterator[Recorder]:
    provider: Any = get_trace_provider()
    before = provider._multi_processor._processors
    recorder = Recorder()
    set_trace_processors([recorder])
    try:
        yield recorder
    finally:
        set_trace_processors(list(before))


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_spans(streamed: bool, caplog: pytest.LogCaptureFixture) -> None:
    around: list[str] = []

    async def spans(speculates: bool) -> list[str]:
        runs = Runs()
        around.clear()

        @function_tool
        async def look(q: str) -> str:
            span = get_current_span()
            around.append("none" if span is None else span.span_data.type)
            with custom_span("inside"):
                return runs.note(q)

        after = runs.until("a", "x") if speculates else None
        chat: Model = model(calling(draft("a"), draft("b"), after=after), saying())
        tool: Any = look
        if speculates:
            chat, tool = speculate(chat, Drafts([draft("a"), draft("x")])), speculable(tool)
        with recording() as recorder:
            await run(agent(chat, tool), streamed=streamed, run_config=RunConfig())
        return recorder.spans

    plain = asyncio.run(spans(speculates=False))
    assert around == ["function", "function"]
    speculative = asyncio.run(spans(speculates=True))
    assert sorted(around) == ["function", "none", "none"]

    # The spans that the function makes are those of the call that ran it.
    assert plain.count("custom inside None") == 2
    assert speculative.count("custom inside None") == 1
    calls = [span for span in plain if span.startswith("function")]
    assert sorted(calls) == sorted(span for span in speculative if span.startswith("function"))
    assert "No active trace" not in caplog.text
