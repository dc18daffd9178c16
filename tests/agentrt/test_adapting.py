"""The door for adapters: what turns do with the guards, the runs and the answers of a framework."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from agentrt import DraftRequest, SpeculationConfig, SpeculationReport, ToolCall, run_scope, speculable
from agentrt.adapting import (
    Guards,
    Run,
    SpeculableTool,
    Toolbox,
    Turn,
    Turns,
    current_scope,
    register_scope_source,
    register_tool_type,
)
from agentrt.config import TurnAhead
from agentrt.errors import ConfigurationError
from agentrt.testing import ScriptedSpeculator, run_in_virtual_time
from agentrt.tools import restrictions
from tests.agentrt.loops import in_virtual_time
from tests.agentrt.turns.sessions import drafting, now

LOOK = ToolCall("look", {"q": "a"}, "call_1")


def toolbox(runs: list[str], **options: Any) -> Toolbox:
    @speculable(**options)
    async def look(q: str) -> str:
        runs.append(q)
        await asyncio.sleep(1)
        return f"found {q}"

    return Toolbox([look])


async def turn_of(turns: Turns, tools: Toolbox, lasts_s: float = 2.0, **settings: Any) -> Turn:
    """Take a turn in which the model makes the drafted call, and return it."""
    with turns.start(request, tools=tools.tools, **settings) as turn:
        await asyncio.sleep(lasts_s)
        turn.bind([LOOK])
    return turn


def one_turn(tools: Toolbox, **settings: Any) -> tuple[Any, SpeculationReport]:
    """Return the result of the call that one model request makes, and the report."""

    async def main() -> tuple[Any, SpeculationReport]:
        turns = Turns(drafting(LOOK))
        await turn_of(turns, tools, **settings)
        return await tools.acall(LOOK), turns.report()

    return run_in_virtual_time(main)


def request() -> DraftRequest:
    return DraftRequest([], [])


def guarded() -> Guards:
    return Guards({"look": "a person approves"})


def unreadable() -> Guards:
    raise KeyError("what the framework renamed")


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"guards": guarded}, "a person approves"),
        ({"guards": unreadable}, "the guards of the run could not be read"),
        ({"guards": lambda: None}, "the guards of the run could not be read"),
        ({"guards": lambda: {"look": "no Guards"}}, "the guards of the run could not be read"),
        ({"offered": ["other"]}, "the tool is not offered in this turn"),
        ({"refused": {"look": "the tool runs alone"}}, "the tool runs alone"),
    ],
)
def test_a_tool_that_must_wait_runs_when_it_is_called(settings: dict[str, Any], why: str) -> None:
    result, report = one_turn(toolbox([]), **settings)
    assert (result, report.total.claims) == ("found a", 0)
    (problem,) = report.turns[0].problems
    assert problem.endswith(why)


@pytest.mark.parametrize(
    ("settings", "claims"),
    [
        ({"guards": guarded}, 1),
        ({"guards": unreadable}, 1),
        ({"refused": {"look": "the tool runs alone"}}, 0),
        ({"guards": lambda: Guards({"another": "a person approves"})}, 1),
    ],
)
def test_a_guarded_tool_may_run_before_its_approval_if_it_says_so(
    settings: dict[str, Any], claims: int
) -> None:
    _, report = one_turn(toolbox([], before_approval=True), **settings)
    assert report.total.claims == claims


def test_guards_that_cannot_be_read_are_said_once(caplog: pytest.LogCaptureFixture) -> None:
    restrictions._warn_of.cache_clear()
    for _ in range(2):
        one_turn(toolbox([]), guards=unreadable)
    (record,) = caplog.records
    assert "KeyError" in record.getMessage()
    assert record.levelno == logging.WARNING


@pytest.mark.parametrize(
    ("register", "wanted"),
    [
        (lambda: Run([]), "Give a hashable value"),  # type: ignore[arg-type]
        (lambda: register_scope_source(3), "Give a function"),  # type: ignore[arg-type]
        (lambda: register_tool_type("Tool", print), "Give a class"),  # type: ignore[arg-type]
        (lambda: register_tool_type(Run, 3), "Give a function"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_work_is_refused_at_once(register: Callable[[], object], wanted: str) -> None:
    with pytest.raises(ConfigurationError, match=wanted):
        register()


@in_virtual_time
async def test_guards_are_read_only_if_a_predictor_is_worth_running() -> None:
    asked: list[str] = []

    def noted() -> Guards:
        asked.append("guards")
        return Guards()

    turns = Turns(drafting(LOOK), config=SpeculationConfig(mode="off"))
    with turns.start(request, tools=toolbox([]).tools, guards=noted):
        await asyncio.sleep(1)
    assert asked == []


@in_virtual_time
async def test_the_end_of_a_run_ends_its_speculations() -> None:
    tools = toolbox([])
    turns, run = Turns(drafting(LOOK)), Run()
    await turn_of(turns, tools, 0.5, run=run)
    began = now()
    await run.aclose()
    assert (turns.report().total.wasted, now() - began) == (1, 0)
    assert await tools.acall(LOOK, run.scope) == "found a"


@in_virtual_time
async def test_a_run_has_its_own_calls() -> None:
    tools = toolbox([])
    turns, ours, others = Turns(drafting(LOOK)), Run(), Run()
    await turn_of(turns, tools, run=ours)
    claims = []
    for run in (others, ours):
        await tools.acall(LOOK, run.scope)
        claims.append(turns.report().total.claims)
    assert claims == [0, 1]


@in_virtual_time
async def test_a_claim_without_a_scope_is_of_the_run_of_its_context() -> None:
    tools = toolbox([])
    turns = Turns(drafting(LOOK))
    with run_scope("ours"):
        assert current_scope() == "ours"
        await turn_of(turns, tools)
    with run_scope("others"):
        await tools.acall(LOOK)
    assert turns.report().total.claims == 0


@in_virtual_time
async def test_an_answer_that_cannot_be_read_discards_its_turn(caplog: pytest.LogCaptureFixture) -> None:
    turns = Turns(drafting(LOOK))
    turn = turns.start(request, tools=toolbox([]).tools)
    await asyncio.sleep(0.5)
    with turn.reading():
        raise ValueError("no such field")
    assert turns.report().total.wasted == 1
    assert "an answer could not be read for its tool calls: ValueError" in caplog.text


def test_turn_ahead_is_refused_where_it_is_not_supported() -> None:
    config = SpeculationConfig(turn_ahead=TurnAhead())
    with pytest.raises(ConfigurationError, match="Leave it out here"):
        Turns(ScriptedSpeculator(), config=config, without_ahead="no turn_ahead. Leave it out here.")


def test_the_key_of_raw_arguments_is_that_of_the_validated_ones() -> None:
    tool: SpeculableTool = toolbox([]).tools["look"]
    assert tool.key_of({"q": "a"}) == tool.key(tool.bind({"q": "a"}))
