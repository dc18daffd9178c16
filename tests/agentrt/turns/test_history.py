"""A prediction repeats no call of its turn, and discloses nothing to tools that disclose their arguments."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from agentrt import (
    DraftRequest,
    SpeculationConfig,
    SpeculationReport,
    SpeculationSession,
    ToolCall,
    run_scope,
    speculable,
)
from agentrt.calls import CallArgumentsDelta, CallStarted
from agentrt.config import TurnAhead
from agentrt.speculators import StreamSpeculator
from agentrt.testing import run_in_virtual_time
from tests.agentrt.turns.sessions import call, drafting, drive

Message = dict[str, Any]


def user(text: str = "Go on.") -> Message:
    return {"role": "user", "content": text}


def made(*calls: ToolCall, answered: bool = True) -> list[Message]:
    """The messages of an answer with these calls, and of their results."""
    messages: list[Message] = []
    for number, each in enumerate(calls):
        at = f"{each.id}_{number}"
        function = {"name": each.name, "arguments": json.dumps(dict(each.arguments))}
        messages.append(
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": at, "type": "function", "function": function}],
            }
        )
        if answered:
            messages.append({"role": "tool", "tool_call_id": at, "content": "found"})
    return messages


class Lookup:
    """The tool ``look``, which takes a second, and the turns of sessions with it."""

    def __init__(self, **options: Any) -> None:
        self.runs: list[str] = []

        @speculable(**options)
        async def look(q: str, limit: int = 3) -> str:
            self.runs.append(q)
            await asyncio.sleep(1)
            return f"found {q}"

        self.tool = look

    def drafted(
        self, messages: Sequence[Message], *drafts: ToolCall, calls: Sequence[ToolCall] = ()
    ) -> SpeculationReport:
        """Return the report of a turn with these drafts, in a session of its own."""
        return drive(self.tool, drafting(*drafts), calls, generation_s=3, messages=messages).report


def test_a_call_made_since_the_users_last_message_is_not_drafted_again() -> None:
    lookup = Lookup()
    report = lookup.drafted([user(), *made(call("a"))], call("a"), call("b"))
    assert lookup.runs == ["b"]
    assert report.total.wasted == 1
    assert report.predictors["ScriptedSpeculator"].drafts == 1  # the other is none: it tells of no skill
    assert "the model has made this call" in report.turns[0].problems[0]


@pytest.mark.parametrize(
    "messages",
    [
        [user(), *made(call("a")), user("And now?")],  # the user may want to know it anew
        [user(), *made(call("b"))],
        [user(), *made(ToolCall("other", {"q": "a"}))],
        [user(), {"role": "assistant", "content": "a", "tool_calls": [{"id": "1"}, None]}],
        [user(), {"role": "assistant", "content": "a", "tool_calls": 7}],
    ],
)
def test_other_calls_are_drafted(messages: list[Message]) -> None:
    lookup = Lookup()
    report = lookup.drafted(messages, call("a"), calls=[call("a")])
    assert (lookup.runs, report.total.claims) == (["a"], 1)


def test_equal_arguments_are_compared_as_the_tool_validates_them() -> None:
    lookup = Lookup()
    lookup.drafted([user(), *made(call("a"))], ToolCall("look", {"q": "a", "limit": 3}))
    assert lookup.runs == []


def test_a_failed_call_is_not_drafted_again_and_its_retry_runs_for_real() -> None:
    lookup = Lookup()
    failed = [user(), *made(call("a"), answered=False)]
    failed.append({"role": "tool", "tool_call_id": "call_1_0", "content": "Error: timeout"})
    report = lookup.drafted(failed, call("a"), calls=[call("a")])
    assert (lookup.runs, report.total.claims, report.total.misses) == (["a"], 0, 1)


def test_a_call_whose_result_was_outdated_by_a_write_is_drafted_again() -> None:
    lookup = Lookup(invalidated_by=["put"])
    written = [user(), *made(call("a"), ToolCall("put", {"q": "a"}, "call_2"))]
    report = lookup.drafted(written, call("a"), calls=[call("a")])
    assert (lookup.runs, report.total.claims) == (["a"], 1)
    read_again = [*written, *made(call("a", "call_3"))]
    lookup.drafted(read_again, call("a"))
    assert lookup.runs == ["a"]


def test_a_call_that_the_model_repeats_runs_as_soon_as_it_is_read_off_the_answer() -> None:
    lookup = Lookup(discloses=True)

    async def main() -> SpeculationReport:
        async with SpeculationSession([lookup.tool], StreamSpeculator()) as session:
            with session.turn([user(), *made(call("a"))], []) as turn:
                turn.observe(CallStarted(0, "look", "call_9"))
                turn.observe(CallArgumentsDelta(0, '{"q": "a"}'))
                await asyncio.sleep(3)
                turn.bind([call("a", "call_9")])
            await session.acall(call("a", "call_9"))
        return session.report()

    report = run_in_virtual_time(main)
    assert (lookup.runs, report.total.claims, report.total.disclosures) == (["a"], 1, 0)


def test_a_disclosing_tool_gets_no_draft_before_the_model_has_called_it() -> None:
    lookup = Lookup(discloses=True)
    report = lookup.drafted([user("my secret")], call("my secret"))
    assert lookup.runs == []
    assert "it would disclose arguments" in report.turns[0].problems[0]
    assert report.predictors["ScriptedSpeculator"].drafts == 1  # judged, as every draft that is not run
    called = [user(), *made(call("x")), user()]
    report = lookup.drafted(called, call("b"))
    assert (lookup.runs, report.tools["look"].disclosures, report.total.disclosures) == (["b"], 1, 1)
    assert "1 disclosures" in str(report)
    report = lookup.drafted(called, call("c"), calls=[call("c")])
    assert (report.total.claims, report.total.disclosures) == (1, 0)  # the model disclosed it


def test_a_call_without_a_result_permits_no_disclosure() -> None:
    lookup = Lookup(discloses=True)
    lookup.drafted([user(), *made(call("x"), answered=False)], call("b"))
    assert lookup.runs == []


def test_values_that_the_tool_has_received_are_not_disclosed_by_a_draft() -> None:
    lookup = Lookup(discloses=True)
    first = ToolCall("look", {"q": "a", "limit": 5}, "call_1")
    lookup.drafted([user()], calls=[first])
    assert lookup.runs == ["a"]
    report = lookup.drafted([user()], ToolCall("look", {"q": "a"}), call("b"), call("a"))
    assert lookup.runs == ["a", "a"]
    assert (report.total.wasted, report.total.disclosures) == (1, 0)


def test_a_call_that_did_not_reach_the_tool_has_disclosed_nothing() -> None:
    lookup = Lookup(discloses=True)

    drive(lookup.tool, [], [call("a")], makes=False, messages=[user()])  # a person rejects it
    lookup.drafted([user()], call("a"))
    assert lookup.runs == []


def test_a_scope_can_permit_disclosures() -> None:
    lookup = Lookup(discloses=True)
    with run_scope("user", may_disclose=True):
        lookup.drafted([user()], call("a"))
        with run_scope("another user"):
            lookup.drafted([user()], call("b"))
    lookup.drafted([user()], call("c"))
    assert lookup.runs == ["a"]


def test_a_predicted_call_permits_no_disclosure_after_it() -> None:
    """A turn ahead has a history in which the model has made a call that it has not made yet."""
    lookup = Lookup(discloses=True)
    lookup.drafted([user()], calls=[call("a")])

    class NextWord:
        looks_ahead = True

        async def drafts(self, request: DraftRequest) -> AsyncIterator[ToolCall]:
            yield call("b" if request.ahead else "a")

    async def model(messages: Any, tools: Any) -> Message:
        await asyncio.sleep(5)
        return {"role": "assistant", "content": "Done."}

    async def main() -> None:
        config = SpeculationConfig(turn_ahead=TurnAhead())
        async with SpeculationSession([lookup.tool], NextWord(), config=config) as session:
            await session.ask(model, [user()], [])

    run_in_virtual_time(main)
    assert lookup.runs == ["a", "a"]


def test_a_read_in_one_answer_with_a_write_may_be_outdated() -> None:
    lookup = Lookup(invalidated_by=["put"])
    read, write = made(call("a"))[0], made(ToolCall("put", {"q": "a"}, "call_2"))[0]
    read["tool_calls"] = write["tool_calls"] + read["tool_calls"]
    lookup.drafted([user(), read], call("a"), calls=[call("a")])
    assert lookup.runs == ["a"]
