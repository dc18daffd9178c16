"""What a turn took, and whether it was answered."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import uuid4

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool

from agentrt.examples.demo import measures
from agentrt.examples.demo.comparison import is_answered
from agentrt.examples.demo.measures import SpeculationCounts, SpeculationLines, Stopwatch
from agentrt.examples.personal_assistant import MOST_MODEL_CALLS, ask, assistant_agent
from agentrt.reports import AheadStarted, DraftArrived, SpeculationReport, SpeculationStarted
from agentrt.reports.report import AheadReport, ToolReport
from tests.examples.test_personal_assistant import Recorder as Shown
from tests.examples.test_personal_assistant import Scripted


class Recorder:
    def __init__(self) -> None:
        self.tools: list[str] = []

    def speculation(self, tool: str) -> None:
        self.tools.append(tool)

    def ahead(self) -> None:
        self.tools.append("a request ahead")


def test_what_starts_early_is_shown() -> None:
    view = Recorder()
    lines = SpeculationLines(view)
    lines.on_event(DraftArrived(1, "local", "read_note", 0.1))
    lines.on_event(SpeculationStarted(1, "read_note"))
    lines.on_event(AheadStarted(3))
    assert view.tools == ["read_note", "a request ahead"]


def test_the_counts_of_a_report_and_of_what_came_after() -> None:
    total = ToolReport(claims=3, misses=2, wasted=4, saved_s=1.5)
    counts = SpeculationCounts.of(SpeculationReport(total=total, ahead=AheadReport(kept=2, wasted=1)))
    assert counts == SpeculationCounts(3, 2, 4, hidden_s=1.5, ahead_kept=2, ahead_wasted=1)
    earlier = SpeculationCounts(1, 2, 3, hidden_s=0.5, ahead_kept=0, ahead_wasted=1)
    assert counts - earlier == SpeculationCounts(2, 0, 1, hidden_s=1.0, ahead_kept=2)
    assert (counts - earlier) + earlier == counts


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
    assert (watch.model_seconds, watch.tool_seconds) == (5.0, 5.5)


@tool
def look(word: str) -> str:
    """Look something up."""
    return f"{word} is a word"


@pytest.mark.parametrize(
    ("script", "answered"),
    [
        ([("look", {"word": "roof"}), "A roof is a word."], True),
        ([*[("look", {"word": "roof"})] * (MOST_MODEL_CALLS - 1), "A roof is a word."], True),
        ([("look", {"word": "roof"})], False),  # for ever
        ([("look", {"word": "roof"}), ""], False),
    ],
)
def test_a_turn_is_answered_if_the_model_ends_it_with_a_text(script: list[Any], answered: bool) -> None:
    agent = assistant_agent(Scripted(script=script), [look])
    messages = asyncio.run(ask(agent, [HumanMessage("What is a roof?")], Shown()))
    assert is_answered(messages) is answered
