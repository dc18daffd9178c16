"""The framework figures count tool runs and claims, and change when either goes wrong."""

from __future__ import annotations

import asyncio

import pytest

from agentrt.bench.speculation import frameworks
from agentrt.bench.speculation.frameworks import FRAMEWORKS, FrameworkResult, Run
from agentrt.bench.speculation.scripted import SCHEMA, Script
from agentrt.reports.report import SpeculationReport
from agentrt.testing import run_in_virtual_time
from agentrt.turns.session import SpeculationSession

pytestmark = pytest.mark.usefixtures("prediction_is_free")


def test_figures_and_rows() -> None:
    results = {
        "right": FrameworkResult(calls=10, runs=10, right_drafts=10, claims=10),
        "twice": FrameworkResult(calls=10, runs=12, right_drafts=10, claims=8),
        "absent": None,
    }
    assert frameworks.figures(results) == {"double_runs": 2, "claims_of_right_drafts": 0.9}
    rows = frameworks.table(results).rows
    assert rows[1] == ("twice", 10, 12, 2, 10, 8)
    assert rows[2] == ("absent (not installed)", None, None, None, None, None)


def measured(run: Run, turns: int) -> FrameworkResult:
    script = Script(turns)
    return FrameworkResult.of(script, run_in_virtual_time(lambda: run(script)))


@pytest.mark.parametrize("name", ["LangGraph, ToolNode", "LangChain, create_agent"])
def test_agents_that_pass_ids_run_each_tool_once(name: str) -> None:
    _, run = FRAMEWORKS[name]
    assert measured(run, 4) == FrameworkResult(calls=4, runs=4, right_drafts=4, claims=4)


def test_what_is_not_installed_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frameworks, "FRAMEWORKS", {"absent": ("no_such_framework", None)})
    assert frameworks.measure_frameworks(4, lambda line: None) == {"absent": None}


async def run_past_the_session(script: Script) -> SpeculationReport:
    """A loop that speculates and then runs its tools itself."""
    tool = script.async_tool()
    async with SpeculationSession([tool], [script]) as session:
        for made in range(script.turns):
            history = [{"role": "user", "content": "go"}, *([{"role": "assistant", "content": ""}] * made)]
            call = script.call(made)
            assert call is not None
            with session.turn(history, [SCHEMA]) as turn:
                await asyncio.sleep(0.05)
                turn.bind([call])
            script.runs.append("not claimed")
        return session.report()


def test_tools_that_run_again_instead_of_being_claimed_show() -> None:
    figures = frameworks.figures({"loop": measured(run_past_the_session, 1)})
    assert figures == {"double_runs": 1, "claims_of_right_drafts": 0}
