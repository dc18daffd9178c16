"""Recording LangChain runs on every path, and replaying them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.tools import BaseTool, ToolException, tool

from agentrt import speculable
from agentrt.adapters.langchain import RunRecorder, speculate
from agentrt.reports.recording import Recording
from agentrt.testing import RecordedSpeculator, ScriptedSpeculator, replay
from tests.adapters.doubles import Calls, ScriptedChat
from tests.adapters.langchain.graphs import BUILDERS, adrive

SCRIPT: list[Calls] = [
    [("look", {"q": "a"}), ("save", {"q": "b"})],
    [("look", {"q": "a"})],
    [("look", {"q": "!"})],
]


def tools() -> list[BaseTool]:
    saved: list[str] = []

    @speculable(invalidated_by=["save"])
    @tool
    async def look(q: str) -> str:
        """Look something up."""
        if q == "!":
            raise ToolException("no such thing")
        return f"found {q} {saved}"

    @tool
    async def save(q: str) -> str:
        """Save something."""
        saved.append(q)
        return "saved"

    look.handle_tool_error = True
    return [look, save]


def record(build: Any, streamed: bool, speculative: bool) -> tuple[Recording, list[Any]]:
    recorder = RunRecorder()
    model: Any = ScriptedChat(script=SCRIPT)
    if speculative:
        model = speculate(model, ScriptedSpeculator())
    app = build(model, tools())
    messages = asyncio.run(adrive(app.with_config(callbacks=[recorder]), streamed))
    return recorder.recording(), messages


@pytest.mark.parametrize("build", BUILDERS)
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("speculative", [False, True])
def test_a_recorded_run_is_what_was_said_and_can_be_replayed(
    build: Any, streamed: bool, speculative: bool
) -> None:
    recording, messages = record(build, streamed, speculative)
    said = [message.text for message in messages if isinstance(message, AIMessage)]
    assert [turn.answer["content"] for turn in recording.turns] == said
    assert [[call.name for call in turn.calls] for turn in recording.turns[1:]] == [["look"], ["look"], []]
    assert sorted(call.name for call in recording.turns[0].calls) == ["look", "save"]
    assert recording.turns[1].calls[0].result == "found a ['b']"
    assert recording.turns[0].started_s == 0
    for turn, after in zip(recording.turns, recording.turns[1:], strict=False):
        answered_s, next_s = (turn.started_s or 0) + turn.seconds, after.started_s or 0
        assert all(answered_s <= (made.started_s or 0) + 1e-6 <= next_s + 2e-6 for made in turn.calls)
    for rate in (0.0, 0.5, 1.0):
        for seed in range(5):
            predictor = RecordedSpeculator(recording, claim_rate=rate, seed=seed)
            replayed = replay(recording, [predictor], writes=["save"], seed=seed)
            assert replayed.recording.transcript == recording.transcript
