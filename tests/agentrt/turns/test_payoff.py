"""What predictors cost and what the budget allows: measured, given back if not wasted, refilled."""

from __future__ import annotations

import itertools
import math
import statistics
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.config import Budget, SpeculationConfig
from agentrt.errors import ConfigurationError
from agentrt.reports.events import CallMissed
from agentrt.turns.controller import Controller, Spending
from agentrt.turns.payoff import PredictionCost, Probes


def cost_of(*turns: tuple[bool, float]) -> PredictionCost:
    cost = PredictionCost()
    for predicted, generation_s in turns:
        cost.add_turn(generation_s, predicted=predicted)
    return cost


def test_turns_without_a_predictor_count_only_beside_one_with_it() -> None:
    idle = [(False, 0.008)] * 22
    assert not cost_of(*idle).needs_a_turn_without(0.0)
    assert not cost_of((True, 0.014), *idle).needs_a_turn_without(0.0)
    assert cost_of((True, 0.014), *idle, (True, 0.012)).needs_a_turn_without(0.0)


def test_one_turn_at_a_time_measures_until_it_is_answered_or_overtaken() -> None:
    cost = cost_of((True, 0.014))
    for _ in range(2):
        assert cost.needs_a_turn_without(0.0)
        cost.begin_turn_without()
        for _ in range(16):
            assert not cost.needs_a_turn_without(0.0)
            cost.note_answer(predicted=True)
    cost.begin_turn_without()
    cost.note_answer(predicted=False)
    assert cost.needs_a_turn_without(0.0)


def test_a_slowdown_is_measured_until_it_is_certain() -> None:
    cost = PredictionCost()
    for _ in range(40):
        predicted = not cost.needs_a_turn_without(0.0)
        cost.add_turn(0.012 if predicted else 0.008, predicted=predicted)
    assert 0.003 < cost.seconds - 0.001 < 0.004


def test_probes_cost_at_most_half_a_percent_of_the_models_time() -> None:
    for cost_s, generation_s in ((0.01, 0.01), (0.001, 0.01), (0.5, 0.01), (0.1, 5.0)):
        probes = Probes()
        turns = 20_000
        made = sum(probes.due(cost_s, generation_s, could_save_s=0.0) for _ in range(turns))
        assert made >= 1
        assert made * cost_s <= 0.0051 * turns * generation_s + cost_s


def test_free_probes_become_rarer_and_never_stop() -> None:
    probes = Probes()
    due = [turn for turn in range(3000) if probes.due(0.0, 1.0, could_save_s=0.0)]
    gaps = [after - before for before, after in itertools.pairwise(due)]
    assert gaps[:4] == [3, 5, 9, 17]
    assert max(gaps) == 257


def test_no_budget_never_ends() -> None:
    spending = Spending(Budget())
    spending.add(runs=10**6, seconds=1e9, tokens=10**9, money=1e9)
    assert spending.exhausted(0.0, money=1e9) is None


@pytest.mark.parametrize("unit", ["runs", "seconds", "tokens", "money"])
def test_each_unit_ends_at_its_bound_and_is_named(unit: str) -> None:
    spending = Spending(Budget(**{unit: 2}))
    spending.add(**{unit: 1})
    assert spending.exhausted(0.0) is None
    spending.add(**{unit: 1})
    assert spending.exhausted(1e9) == f"the budget of 2 {unit} is spent"
    spending.add(**{unit: -1})
    assert spending.exhausted(0.0) is None


def test_a_cost_that_would_exceed_the_budget_is_seen_before() -> None:
    spending = Spending(Budget(money=1.0))
    assert spending.exhausted(0.0, money=1.5) is not None
    assert spending.exhausted(0.0, money=1.0) is None


def test_spending_decays_evenly() -> None:
    spending = Spending(Budget(runs=4, per_seconds=60))
    assert spending.exhausted(100.0) is None
    spending.add(runs=4)
    assert spending.exhausted(100.0) is not None
    assert spending.exhausted(100.0 + 14) is not None or spending.exhausted(100.0 + 16) is None
    spending.add(runs=4)
    assert spending.exhausted(100.0 + 16) is not None
    assert spending.exhausted(1000.0) is None
    assert spending.exhausted(0.0) is None  # a clock that went back forgets nothing, and breaks nothing


@pytest.mark.parametrize("unit", ["runs", "seconds", "tokens", "money"])
@given(
    st.lists(st.tuples(st.floats(0, 10), st.integers(1, 4)), max_size=60),
    st.integers(0, 6),
    st.none() | st.floats(0.1, 100),
)
def test_in_no_time_more_than_the_budget_and_its_refill(
    unit: str, asked: list[tuple[float, int]], limit: int, per_seconds: float | None
) -> None:
    spending = Spending(Budget(**{unit: limit}, per_seconds=per_seconds))
    now = 0.0
    spent: list[tuple[float, int]] = []
    for pause, amount in asked:
        now += pause
        due: Any = {unit: amount}
        if spending.exhausted(now, **due) is None:
            spending.add(**due)
            spent.append((now, amount))
    for first, (began, _) in enumerate(spent):
        for last, (ended, _) in enumerate(spent[first:], first):
            refills = 0.0 if per_seconds is None else (ended - began) / per_seconds
            assert sum(amount for _, amount in spent[first : last + 1]) <= limit * (1 + refills) + 1e-6


def test_rounding_takes_nothing_away() -> None:
    spending = Spending(Budget(money=0.3))
    for _ in range(3):
        assert spending.exhausted(0.0, money=0.1) is None
        spending.add(money=0.1)
    assert spending.exhausted(0.0, money=0.1) is not None


def test_a_run_is_spent_from_its_start_and_given_back_if_it_is_claimed() -> None:
    spending = Spending(Budget(runs=9, seconds=10, money=1.0))
    spending.start_run("a", seconds=6, money=0.4)
    spending.start_run("b", seconds=6, money=0.4)
    assert spending.exhausted(0.0) == "the budget of 10 seconds is spent"
    spending.claim_run("a", money=0.4)
    assert spending.exhausted(0.0, money=0.6) is None
    assert spending.exhausted(0.0, money=0.7) == "the budget of 1 money is spent"
    spending.waste_run("b", seconds=1)
    spending.start_run("c", seconds=8, money=0.0)
    assert spending.exhausted(0.0) is None
    spending.start_run("d", seconds=1, money=0.0)
    assert spending.exhausted(0.0) == "the budget of 10 seconds is spent"


def test_invalid_budgets_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="runs"):
        Budget(runs=-1)
    with pytest.raises(ConfigurationError, match="per_seconds"):
        Budget(per_seconds=0)


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=60))
def test_a_tools_time_is_the_median_of_its_last_runs(seconds: list[float]) -> None:
    controller = Controller(SpeculationConfig())
    for each in seconds:
        controller.on_event(CallMissed(1, tool="look", tool_s=each, reason="no draft"))
    controller.on_event(CallMissed(1, tool="odd", tool_s=math.inf, reason="no draft"))
    times = controller.tool_seconds(["look", "odd", "never"])
    assert times == {"look": pytest.approx(statistics.median(seconds[-20:]), abs=1e-3)}


def test_one_run_that_hung_does_not_change_a_tools_time() -> None:
    controller = Controller(SpeculationConfig())
    for tool_s in (0.5, 300.0, 0.7):
        controller.on_event(CallMissed(1, tool="look", tool_s=tool_s, reason="no draft"))
    assert controller.tool_seconds(["look"]) == {"look": 0.7}
