import asyncio
from uuid import uuid4

import pytest

from agentrt.examples.demo import measures
from agentrt.examples.demo.measures import SpeculationCounter, SpeculationCounts, Stopwatch
from agentrt.reports import (
    AheadKept,
    AheadStarted,
    AheadWasted,
    CallClaimed,
    CallMissed,
    DraftArrived,
    SpeculationStarted,
    SpeculationWasted,
)


class Recorder:
    def __init__(self) -> None:
        self.tools: list[str] = []

    def speculation(self, tool: str) -> None:
        self.tools.append(tool)

    def ahead(self) -> None:
        self.tools.append("a request ahead")


def test_events_are_counted_until_they_are_taken() -> None:
    view = Recorder()
    counter = SpeculationCounter(view)
    counter.on_event(DraftArrived(1, "local", "read_note", 0.1))
    counter.on_event(SpeculationStarted(1, "read_note"))
    counter.on_event(CallClaimed(1, "read_note", tool_s=1.0, waited_s=0.25, draft_s=0.1))
    counter.on_event(CallMissed(2, "read_mail", 0.2, "not predicted"))
    counter.on_event(SpeculationWasted(2, "read_file", 0.1, "not asked for"))
    counter.on_event(SpeculationWasted(2, "read_note", 0.1, "not asked for"))
    counter.on_event(AheadStarted(3))
    counter.on_event(AheadKept(3, 0.5))
    counter.on_event(AheadWasted(4, 0.5, "the next request was another one"))
    assert counter.take() == SpeculationCounts(1, 1, 2, hidden_s=0.75, ahead_kept=1, ahead_wasted=1)
    assert counter.take() == SpeculationCounts()
    assert view.tools == ["read_note", "a request ahead"]


def test_calls_that_overlap_are_timed_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([10.0, 11.0, 12.0, 14.0, 20.0, 25.0, 30.0, 30.5])
    monkeypatch.setattr(measures, "perf_counter", lambda: next(clock))
    watch = Stopwatch()
    first, second, tool, broken = uuid4(), uuid4(), uuid4(), uuid4()

    async def events() -> None:
        await watch.on_chat_model_start({}, [], run_id=first)
        await watch.on_chat_model_start({}, [], run_id=second)
        await watch.on_llm_end(None, run_id=first)
        await watch.on_llm_end(None, run_id=second)
        await watch.on_tool_start({}, "", run_id=tool)
        await watch.on_tool_end("", run_id=tool)
        await watch.on_tool_start({}, "", run_id=broken)
        await watch.on_tool_error(KeyError(), run_id=broken)

    asyncio.run(events())
    assert (watch.model_calls, watch.model_seconds, watch.tool_seconds) == (2, 5.0, 5.5)
