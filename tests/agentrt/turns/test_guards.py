"""Tools that must not run speculatively: a guard does not permit it, or the turn does not offer them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from agentrt import SpeculationReport, SpeculationSession, ToolCall, speculable
from agentrt.config import Budget, SpeculationConfig
from agentrt.testing import ScriptedSpeculator, run_in_virtual_time
from tests.agentrt.turns.sessions import call, one_turn

REFUSED = "ScriptedSpeculator drafted look: its guard does not permit it with these arguments"


def guarded_turn(guard: Any, **options: Any) -> tuple[str, float, list[str], SpeculationReport]:
    """Draft and make the call of ``look(q="a")`` in 10 seconds; return result, time, runs and report."""
    runs: list[str] = []

    @speculable(guard=guard, **options)
    async def look(q: str, limit: int = 3) -> str:
        runs.append(q)
        await asyncio.sleep(5)
        return f"found {q}"

    async def main() -> tuple[str, float, list[str], SpeculationReport]:
        async with SpeculationSession([look], ScriptedSpeculator([call("a")])) as session:
            result, seconds = await one_turn(session, 10, call("a"))
        return result, seconds, runs, session.report()

    return run_in_virtual_time(main)


def asked(answers: list[Mapping[str, Any]], permits: Any) -> tuple[Any, Any]:
    def guard(arguments: Mapping[str, Any]) -> Any:
        answers.append(arguments)
        return permits

    async def slow_guard(arguments: Mapping[str, Any]) -> Any:
        await asyncio.sleep(1)
        return guard(arguments)

    return guard, slow_guard


@pytest.mark.parametrize("which", [0, 1])
def test_a_guard_that_permits_is_asked_with_the_validated_arguments(which: int) -> None:
    arguments: list[Mapping[str, Any]] = []
    result, seconds, runs, report = guarded_turn(asked(arguments, True)[which])
    assert (result, seconds, runs) == ("found a", 10, ["a"])
    assert arguments == [{"q": "a", "limit": 3}]
    assert report.total.claims == 1


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("permits", [False, None])
def test_a_guard_that_does_not_permit_leaves_the_run_to_the_real_call(which: int, permits: Any) -> None:
    result, seconds, runs, report = guarded_turn(asked([], permits)[which])
    assert (result, seconds, runs) == ("found a", 15, ["a"])
    assert (report.total.claims, report.total.misses, report.total.wasted) == (0, 1, 0)
    assert report.turns[0].problems == (REFUSED,)


def test_only_true_permits() -> None:
    *_, runs, report = guarded_turn(lambda arguments: "False")
    assert runs == ["a"]
    assert report.turns[0].problems == (
        "ScriptedSpeculator drafted look: its guard returned str, not True or False",
    )


def test_a_guard_that_fails_does_not_permit() -> None:
    def guard(arguments: Mapping[str, Any]) -> bool:
        return arguments["no such name"] == "a"

    _, seconds, _, report = guarded_turn(guard)
    assert seconds == 15
    assert report.turns[0].problems == ("ScriptedSpeculator drafted look: its guard failed with KeyError",)


def test_a_guard_without_an_answer_ends_with_the_turn() -> None:
    async def guard(arguments: Mapping[str, Any]) -> bool:
        await asyncio.sleep(1e6)
        return True

    *outcome, report = guarded_turn(guard)
    assert outcome == ["found a", 15, ["a"]]
    assert report.turns[0].problems == (
        "ScriptedSpeculator drafted look: its guard had not decided when the turn ended",
    )


def test_a_guard_cannot_change_the_arguments() -> None:
    def guard(arguments: Any) -> bool:
        arguments["q"] = "something else"
        return True

    assert guarded_turn(guard)[2] == ["a"]


@pytest.mark.parametrize("option", ["guard", "canonical"])
def test_neither_guard_nor_canonical_changes_what_is_in_the_arguments(option: str) -> None:
    def sort(arguments: Any = None, **named: Any) -> Any:
        (arguments or named)["tags"].sort()
        return arguments is not None or named

    runs: list[list[str]] = []

    @speculable(**{option: sort})
    async def look(tags: list[str]) -> str:
        runs.append(tags)
        return tags[0]

    drafted = ToolCall("look", {"tags": ["b", "a"]}, "1")

    async def main() -> Any:
        async with SpeculationSession([look], ScriptedSpeculator([drafted])) as session:
            return await one_turn(session, 10, drafted)

    assert run_in_virtual_time(main)[0] == "b"
    assert runs == [["b", "a"]]


def test_a_guard_is_not_asked_about_a_draft_that_is_not_run() -> None:
    questions: list[Mapping[str, Any]] = []

    @speculable(guard=asked(questions, True)[0])
    async def look(q: str) -> str:
        return q

    async def main() -> None:
        config = SpeculationConfig(mode="shadow")
        async with SpeculationSession([look], ScriptedSpeculator([call("a")]), config=config) as session:
            await one_turn(session, 10, call("a"))

    run_in_virtual_time(main)
    assert questions == []


def offered(*names: str) -> list[dict[str, Any]]:
    return [{"type": "function", "function": {"name": name}} for name in names]


@pytest.mark.parametrize(
    ("tools", "ran"),
    [(offered("look"), ["look"]), (offered("look", "admin"), ["admin", "look"]), ([], ["admin", "look"])],
)
def test_only_tools_that_the_turn_offers_run_speculatively(tools: Any, ran: list[str]) -> None:
    runs: list[str] = []

    @speculable
    async def admin(user: str) -> None:
        runs.append("admin")

    @speculable
    async def look(q: str) -> None:
        runs.append("look")

    async def main() -> SpeculationReport:
        drafts = [ToolCall("admin", {"user": "x"}), call("a")]
        async with SpeculationSession([admin, look], ScriptedSpeculator(drafts)) as session:
            with session.turn([], tools) as turn:
                await asyncio.sleep(1)
                turn.bind([])
        return session.report()

    report = run_in_virtual_time(main)
    assert runs == ran
    refusal = "ScriptedSpeculator drafted admin: the tool is not offered in this turn"
    assert (refusal in report.turns[0].problems) == ("admin" not in ran)


def test_a_turn_that_offers_no_speculable_tool_runs_no_predictor() -> None:
    async def main() -> tuple[ScriptedSpeculator, SpeculationReport]:
        predictor = ScriptedSpeculator([call("a")])

        @speculable
        async def look(q: str) -> str:
            return q

        async with SpeculationSession([look], predictor) as session:
            with session.turn([], offered("other")) as turn:
                await asyncio.sleep(1)
                turn.bind([])
        return predictor, session.report()

    predictor, report = run_in_virtual_time(main)
    assert predictor.requests == []
    assert report.turns[0].problems == (
        "ScriptedSpeculator was not started: the tool is not offered in this turn",
    )


def test_runs_that_wait_for_their_guards_together_stay_within_the_budget() -> None:
    runs: list[str] = []

    async def guard(arguments: Mapping[str, Any]) -> bool:
        await asyncio.sleep(1)
        return True

    @speculable(guard=guard)
    async def look(q: str) -> str:
        runs.append(q)
        return q

    async def main() -> SpeculationReport:
        predictors = [ScriptedSpeculator([call(name)]) for name in "abc"]
        config = SpeculationConfig(budget=Budget(runs=1))
        async with SpeculationSession([look], predictors, config=config) as session:
            await one_turn(session, 10, call("other"))
        return session.report()

    report = run_in_virtual_time(main)
    assert (report.total.wasted, len(runs)) == (1, 2)  # a speculation, and the call
