"""Tools that must not run speculatively: a guard does not permit it, or the turn does not offer them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from agentrt import SpeculationSession, ToolCall, speculable
from agentrt.config import Budget, SpeculationConfig
from tests.agentrt.loops import in_virtual_time
from tests.agentrt.turns.sessions import Driven, call, drafting, drive, slow_tool


def guarded_turn(guard: Any) -> tuple[list[str], Driven]:
    """Draft and make the call of ``look(q="a")`` in 10 seconds; return the runs and what came of it."""
    runs: list[str] = []

    @speculable(guard=guard)
    async def look(q: str, limit: int = 3) -> str:
        runs.append(q)
        await asyncio.sleep(5)
        return f"found {q}"

    return runs, drive(look, drafting(call("a")), [call("a")], generation_s=10)


def asked(answers: list[Mapping[str, Any]], permits: Any) -> tuple[Any, Any]:
    def guard(arguments: Any) -> Any:
        answers.append(dict(arguments))
        arguments["q"] = "something else"  # in a copy
        return permits

    async def slow_guard(arguments: Mapping[str, Any]) -> Any:
        await asyncio.sleep(1)
        return guard(arguments)

    return guard, slow_guard


@pytest.mark.parametrize("which", [0, 1])
def test_a_guard_that_permits_is_asked_with_the_validated_arguments(which: int) -> None:
    arguments: list[Mapping[str, Any]] = []
    runs, driven = guarded_turn(asked(arguments, True)[which])
    assert (driven.results, driven.seconds, runs) == (["found a"], 10, ["a"])
    assert arguments == [{"q": "a", "limit": 3}]
    assert driven.report.total.claims == 1


async def undecided(arguments: Mapping[str, Any]) -> bool:
    await asyncio.sleep(1e6)
    return True


@pytest.mark.parametrize(
    ("guard", "why"),
    [
        *((guard, "its guard does not permit it with these arguments") for guard in asked([], False)),
        *((guard, "its guard does not permit it with these arguments") for guard in asked([], None)),
        (lambda arguments: "False", "its guard returned str, not True or False"),
        (lambda arguments: arguments["no such name"] == "a", "its guard failed with KeyError"),
        (undecided, "its guard had not decided when the turn ended"),
    ],
)
def test_a_guard_that_does_not_permit_leaves_the_run_to_the_real_call(guard: Any, why: str) -> None:
    runs, driven = guarded_turn(guard)
    assert (driven.results, driven.seconds, runs) == (["found a"], 15, ["a"])
    total = driven.report.total
    assert (total.claims, total.misses, total.wasted) == (0, 1, 0)
    assert driven.report.turns[0].problems == (f"ScriptedSpeculator drafted look: {why}",)


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

    assert drive(look, drafting(drafted), [drafted]).results == ["b"]
    assert runs == [["b", "a"]]


def test_a_guard_is_not_asked_about_a_draft_that_is_not_run() -> None:
    questions: list[Mapping[str, Any]] = []

    look = slow_tool(0, [], guard=asked(questions, True)[0])
    drive(look, drafting(call("a")), [call("a")], config=SpeculationConfig(mode="shadow"))
    assert questions == []


def offered(*names: str) -> list[dict[str, Any]]:
    return [{"type": "function", "function": {"name": name}} for name in names]


@pytest.mark.parametrize(
    ("tools", "ran"),
    [(offered("look"), ["look"]), (offered("look", "admin"), ["admin", "look"]), ([], ["admin", "look"])],
)
@in_virtual_time
async def test_only_tools_that_the_turn_offers_run_speculatively(tools: Any, ran: list[str]) -> None:
    runs: list[str] = []

    @speculable
    async def admin(user: str) -> None:
        runs.append("admin")

    @speculable
    async def look(q: str) -> None:
        runs.append("look")

    drafts = [ToolCall("admin", {"user": "x"}), call("a")]
    async with SpeculationSession([admin, look], drafting(*drafts)) as session:
        with session.turn([], tools) as turn:
            await asyncio.sleep(1)
            turn.bind([])
    report = session.report()
    assert runs == ran
    refusal = "ScriptedSpeculator drafted admin: the tool is not offered in this turn"
    assert (refusal in report.turns[0].problems) == ("admin" not in ran)


@in_virtual_time
async def test_a_turn_that_offers_no_speculable_tool_runs_no_predictor() -> None:
    predictor = drafting(call("a"))
    async with SpeculationSession([slow_tool(0, [])], predictor) as session:
        with session.turn([], offered("other")) as turn:
            await asyncio.sleep(1)
            turn.bind([])
    report = session.report()
    assert predictor.requests == []
    assert report.turns[0].problems == (
        "ScriptedSpeculator was not started: the tool is not offered in this turn",
    )


def test_runs_that_wait_for_their_guards_together_stay_within_the_budget() -> None:
    runs: list[str] = []

    async def guard(arguments: Mapping[str, Any]) -> bool:
        await asyncio.sleep(1)
        return True

    predictors = [drafting(call(name)) for name in "abc"]
    config = SpeculationConfig(budget=Budget(runs=1))
    look = slow_tool(0, runs, guard=guard)
    report = drive(look, predictors, [call("other")], generation_s=10, config=config).report
    assert (report.total.wasted, len(runs)) == (1, 2)  # a speculation, and the call
