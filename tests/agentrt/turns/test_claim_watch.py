"""A tool whose right drafts are not claimed is not run speculatively any more, and the report says why."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from agentrt import SpeculationSession, ToolCall, speculable
from agentrt.drafts import DraftRequest
from agentrt.reports.events import CallClaimed, DraftUnclaimed, SpeculationEvent
from agentrt.reports.report import SpeculationReport
from agentrt.testing import run_in_virtual_time
from agentrt.turns.shared import ClaimWatch

pytestmark = pytest.mark.usefixtures("prediction_is_free")

TURNS = 10


class Oracle:
    """Drafts a look at the last message."""

    name = "oracle"

    async def drafts(self, request: DraftRequest) -> Any:
        for tool in ("look", "other"):
            yield ToolCall(tool, {"q": request.messages[0]["content"]})


def answer(number: int) -> dict[str, str]:
    """The result of the call before this one."""
    return {"role": "tool", "tool_call_id": f"call_{number - 1}", "content": "x"}


def follow(
    make: Any,
    tools: list[Any],
    ids: bool = False,
    turns: int = TURNS,
    history: Callable[[int], list[dict[str, str]]] = lambda number: [answer(number)],
    apart: bool = False,
) -> SpeculationReport:
    """Run a session whose model calls ``look`` in each turn, with ``history`` if the calls have ``ids``.

    ``make`` makes the call; requests are sent in tasks of their own if they are ``apart`` from it.
    """

    async def main() -> SpeculationReport:
        async with SpeculationSession(tools, [Oracle()]) as session:
            for number in range(turns):
                call = ToolCall("look", {"q": str(number)}, f"call_{number}" if ids else None)
                said = {"role": "user", "content": str(number)}

                async def request(call: ToolCall = call, said: Any = said, number: int = number) -> None:
                    with session.turn([said, *(history(number) if ids else [])], []) as turn:
                        await asyncio.sleep(2)
                        turn.bind([call])

                await (asyncio.create_task(request()) if apart else request())
                await make(session, call)
            return session.report()

    return run_in_virtual_time(main)


def looks() -> tuple[list[str], Any, Any]:
    runs: list[str] = []

    async def look(q: str) -> str:
        runs.append(q)
        return q

    return runs, look, speculable(look)


@pytest.mark.parametrize("itself", [False, True])
def test_calls_are_claimed_without_ids_and_by_the_function_itself(itself: bool) -> None:
    runs, _, look = looks()
    make = (lambda _, call: look(**call.arguments)) if itself else (lambda session, call: session.acall(call))
    report = follow(make, [look], ids=itself)
    assert runs == [str(number) for number in range(TURNS)]
    assert (report.total.claims, report.total.misses, report.total.unclaimed) == (TURNS, 0, 0)


def test_calls_made_some_other_way_stop_the_speculation(caplog: pytest.LogCaptureFixture) -> None:
    runs, plain, look = looks()
    with caplog.at_level(logging.WARNING, logger="agentrt"):
        report = follow(lambda _, call: plain(**call.arguments), [look])
    assert len(runs) == TURNS + 2
    total = report.total
    assert (total.claims, total.misses, total.unclaimed, total.wasted) == (0, 0, 2, 2)
    (warning,) = caplog.records
    assert "look is not run speculatively any more: right drafts of 2 turns" in warning.message
    assert "0 of 2 calls claimed" in str(report)
    stopped = "2 right drafts not claimed; not run speculatively any more: right drafts of 2 turns"
    assert stopped in str(report)
    assert report.predictors["oracle"].skipped == TURNS - 2


def test_tasks_that_know_only_the_answered_ids_stop_it_too() -> None:
    runs, plain, look = looks()
    report = follow(lambda _, call: plain(**call.arguments), [look], ids=True, apart=True)
    assert report.total.unclaimed == 2
    assert len(runs) == TURNS + 2


def test_calls_without_a_result_were_not_made_and_stop_nothing(caplog: pytest.LogCaptureFixture) -> None:
    runs, _, look = looks()
    report = follow(
        lambda session, call: asyncio.sleep(0), [look], ids=True, turns=3, history=lambda number: []
    )
    assert report.tools["look"].stopped == ""
    assert runs == ["0", "1", "2"]
    assert not caplog.records


def test_results_before_another_message_of_the_user_were_made() -> None:
    _, plain, look = looks()
    later = lambda number: [answer(number), {"role": "user", "content": str(number)}]  # noqa: E731
    report = follow(lambda _, call: plain(**call.arguments), [look], ids=True, turns=3, history=later)
    assert report.tools["look"].stopped != ""


def test_another_tool_goes_on() -> None:
    runs, plain, look = looks()
    others: list[str] = []

    @speculable
    async def other(q: str) -> str:
        others.append(q)
        return q

    report = follow(lambda _, call: plain(**call.arguments), [look, other])
    assert len(runs) == TURNS + 2
    assert len(others) > 2
    assert (report.tools["look"].stopped != "", report.tools["other"].stopped) == (True, "")


def test_a_claim_in_between_starts_the_count_anew() -> None:
    noted: list[SpeculationEvent] = []
    watch = ClaimWatch(noted.append)
    for turn in range(6):
        watch.on_event(DraftUnclaimed(turn, "look", "p", "expired"))
        watch.on_event(DraftUnclaimed(turn, "look", "p", "expired"))  # a second call of the same turn
        watch.on_event(CallClaimed(turn, "look", 1.0, 0.0, 0.0))
    assert watch.stopped("look") is None
    for turn in (6, 7, 8):
        watch.on_event(DraftUnclaimed(turn, "look", "p", "expired"))
    assert watch.stopped("look") == "right drafts of 2 turns were not claimed (expired)"
    assert len(noted) == 1
