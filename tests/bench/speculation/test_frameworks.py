"""The framework figures count tool runs and claims, and change when either goes wrong."""

from __future__ import annotations

import asyncio

import pytest

from agentrt.bench.speculation import frameworks
from agentrt.bench.speculation.frameworks import FRAMEWORKS, FrameworkResult
from agentrt.bench.speculation.scripted import SCHEMA, Run, Script
from agentrt.reports.report import SpeculationReport
from agentrt.testing import run_in_virtual_time
from agentrt.turns.session import SpeculationSession

pytestmark = pytest.mark.usefixtures("prediction_is_free", "answers_wait_for_drafts")


RESULTS = {
    "right": FrameworkResult(calls=10, runs=10, right_drafts=10, claims=10, equal=True),
    "twice": FrameworkResult(calls=10, runs=12, right_drafts=10, claims=8, equal=True),
    "other words": FrameworkResult(calls=10, runs=10, right_drafts=10, claims=9, equal=False),
    "no claims": FrameworkResult(calls=10, runs=20, right_drafts=10, claims=0, equal=True),
    "absent": None,
}


def test_figures_and_rows() -> None:
    assert frameworks.figures(RESULTS) == {
        "frameworks_claiming": 2,
        "frameworks_tried": 4,
        "double_runs": 12,
        "claims_of_right_drafts": 27 / 40,
    }
    rows = frameworks.table(RESULTS).rows
    assert rows[1] == ("twice", 10, 12, 2, 10, 8, "equal")
    assert rows[2][-1] == "differs"
    assert rows[4] == ("absent (not installed)", None, None, None, None, None, None)


def measured(run: Run, turns: int) -> FrameworkResult:
    return run_in_virtual_time(lambda: frameworks.measure_framework(run, turns))


RIGHT = FrameworkResult(calls=4, runs=4, right_drafts=4, claims=4, equal=True)


@pytest.mark.parametrize(
    "name", ["LangGraph, ToolNode", "LangChain, create_agent", "session, calls without ids"]
)
def test_agents_run_each_tool_once_and_say_what_they_say_without_agentrt(name: str) -> None:
    _, run = FRAMEWORKS[name]
    assert measured(run, 4) == RIGHT


@pytest.mark.filterwarnings("ignore:create_react_agent has been moved")  # by langgraph-supervisor
@pytest.mark.parametrize("name", FRAMEWORKS)
def test_every_framework_that_is_installed_claims(name: str) -> None:
    package, run = FRAMEWORKS[name]
    pytest.importorskip(package, reason=f"{package} is not installed")
    assert asyncio.run(frameworks.measure_framework(run, 3)).claiming


def test_a_framework_whose_run_fails_counts_as_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails(script: Script) -> None:
        raise LookupError("no such model")

    monkeypatch.setattr(frameworks, "FRAMEWORKS", {"broken": ("agentrt", fails)})
    results = frameworks.measure_frameworks(4, lambda line: None)
    figures = frameworks.figures(results)
    assert (figures["frameworks_claiming"], figures["frameworks_tried"], figures["double_runs"]) == (0, 1, 0)
    assert frameworks.table(results).rows[0][-1] == "LookupError('no such model')"


def test_what_is_not_installed_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frameworks, "FRAMEWORKS", {"absent": ("no_such_framework", None)})
    assert frameworks.measure_frameworks(4, lambda line: None) == {"absent": None}


async def run_past_the_session(script: Script) -> SpeculationReport | None:
    """A loop that speculates and then runs its tools itself."""
    if not script.speculative:
        script.transcript = ["done"]
        return None
    tool = script.declared(script.coroutine_function())
    async with SpeculationSession([tool], [script]) as session:
        for made in range(script.turns):
            history = [{"role": "user", "content": "go"}, *([{"role": "assistant", "content": ""}] * made)]
            call = script.call(made)
            assert call is not None
            with session.turn(history, [SCHEMA]) as turn:
                await script.agenerate()
                turn.bind([call])
            script.runs.append("not claimed")
        script.transcript = ["done"]
        return session.report()


def test_tools_that_run_again_instead_of_being_claimed_show() -> None:
    result = measured(run_past_the_session, 1)
    assert not result.claiming
    figures = frameworks.figures({"loop": result})
    assert (figures["frameworks_claiming"], figures["frameworks_tried"]) == (0, 1)
    assert (figures["double_runs"], figures["claims_of_right_drafts"]) == (1, 0)


async def claims_and_says_something_else(script: Script) -> SpeculationReport | None:
    report = await FRAMEWORKS["LangChain, create_agent"][1](script)
    if script.speculative:
        script.transcript[-1] = "another result"
    return report


async def says_nothing(script: Script) -> SpeculationReport | None:
    report = await FRAMEWORKS["LangChain, create_agent"][1](script)
    script.transcript = []
    return report


@pytest.mark.parametrize("run", [claims_and_says_something_else, says_nothing])
def test_a_framework_whose_transcript_differs_does_not_claim(run: Run) -> None:
    result = measured(run, 2)
    assert result.claims == 2
    assert not result.claiming
