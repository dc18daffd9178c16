from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.runtime.kv.swap.costs import LinearCost, RefinedCost

terms = st.floats(1e-6, 1)


@given(terms, terms, st.lists(st.floats(1, 1e6), min_size=2, max_size=8, unique=True))
def test_a_line_is_found_again(fixed: float, slope: float, sizes: list[float]) -> None:
    line = LinearCost(fixed, slope)
    found = LinearCost.fit([(size, line.seconds(size)) for size in sizes])
    for size in sizes:
        assert found.seconds(size) == pytest.approx(line.seconds(size), rel=1e-3)


@given(st.lists(st.tuples(st.floats(1, 1e6), st.floats(1e-6, 10)), min_size=1, max_size=8))
def test_no_term_is_negative(points: list[tuple[float, float]]) -> None:
    found = LinearCost.fit(points)
    assert found.fixed_s >= 0
    assert found.per_unit_s >= 0


def test_nothing_costs_nothing() -> None:
    assert LinearCost(1.0, 1.0).seconds(0, 0) == 0


def test_observations_correct_the_measurement() -> None:
    measured = LinearCost(0.001, 1e-6)
    cost = RefinedCost(measured)
    for _ in range(30):
        cost.observe(1000, 2, 10 * measured.seconds(1000, 2))
    assert cost.present.seconds(1000, 2) == pytest.approx(10 * measured.seconds(1000, 2), rel=0.01)
    cost.measure_again(LinearCost(0.5, 0.0))
    assert cost.present == LinearCost(0.5, 0.0)


def test_one_read_that_had_to_wait_moves_it_little() -> None:
    cost = RefinedCost(LinearCost(0.001, 0.0))
    cost.observe(0, 1, 1.0)
    assert cost.present.fixed_s < 0.01
