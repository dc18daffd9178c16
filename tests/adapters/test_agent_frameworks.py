"""An unchanged agent of every framework claims each call, and runs its tool once for each."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.adapters import agent_frameworks
from tests.adapters.adapter_agents import adapter_agents
from tests.adapters.agent_world import TURNS, Outcome

pytestmark = pytest.mark.usefixtures("prediction_is_free")

OWN = agent_frameworks.own_agents()
FRAMEWORKS = {**agent_frameworks.framework_agents(), **adapter_agents()}


def check(outcome: Outcome) -> None:
    asked = [str(turn) for turn in range(TURNS - 1)]
    assert outcome.runs == asked, str(outcome.report)
    assert outcome.results == [f"found {q}" for q in asked]
    assert outcome.double_runs == 0
    total = outcome.report.total
    assert (total.claims, total.misses, total.unclaimed, total.wasted) == (TURNS - 1, 0, 0, 0)


@pytest.mark.parametrize("run", OWN.values(), ids=OWN)
def test_each_call_runs_once(run: Callable[[], Outcome]) -> None:
    check(run())


@pytest.mark.parametrize(("module", "run"), FRAMEWORKS.values(), ids=FRAMEWORKS)
@pytest.mark.filterwarnings("ignore:create_react_agent has been moved")  # by langgraph-supervisor
def test_each_call_runs_once_in_frameworks(module: str, run: Callable[[], Outcome]) -> None:
    pytest.importorskip(module, reason=f"{module} is not installed", exc_type=ImportError)
    check(run())
