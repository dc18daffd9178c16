from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.runtime.kv.swap.costs import LinearCost, RefinedCost, recomputed_chunks

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


seconds = st.floats(0, 1)
costs = st.builds(LinearCost, seconds, st.floats(0, 1e-3))
sizes = st.lists(st.integers(0, 1000), max_size=30)


@given(sizes, st.builds(LinearCost, seconds, st.floats(1e-3, 1)), costs)
def test_no_other_number_of_chunks_is_quicker(
    io_bytes: list[int], recompute: LinearCost, io: LinearCost
) -> None:
    def delay(chunks: int) -> float:
        computing = recompute.seconds(chunks) if chunks else 0.0
        return max(computing, io.seconds(sum(io_bytes[chunks:]), len(io_bytes) - chunks))

    chosen = recomputed_chunks(io_bytes, recompute, io)
    assert 0 <= chosen <= len(io_bytes)
    best = min(map(delay, range(len(io_bytes) + 1)))
    if best > 0.9 * delay(0):
        assert chosen == 0, "it would hardly be quicker"
        return
    assert delay(chosen) <= best * (1 + 1e-9)
    assert all(delay(fewer) > delay(chosen) for fewer in range(chosen)), "the fewest of equally quick ones"


@given(sizes, costs, costs, st.integers(0, 5))
def test_no_more_than_wanted(io_bytes: list[int], recompute: LinearCost, io: LinearCost, most: int) -> None:
    assert recomputed_chunks(io_bytes, recompute, io, most=most) == min(
        most, recomputed_chunks(io_bytes, recompute, io)
    )


def test_nothing_is_computed_where_that_saves_little() -> None:
    recompute, sizes = LinearCost(0.0, 0.04), [1] * 100
    chosen = [recomputed_chunks(sizes, recompute, LinearCost(0.0, s)) for s in (0.001, 0.004, 0.006)]
    assert chosen == [0, 0, 13]
    assert recomputed_chunks(sizes, recompute, LinearCost(0.0, 0.006), most=2) == 2, (
        "the first of many batches"
    )


def test_a_faster_disk_recomputes_less_and_light_chunks_are_read() -> None:
    recompute = LinearCost(0.0, 0.01)
    plain = [recomputed_chunks([100] * 20, recompute, LinearCost(0.0, s)) for s in (1e-6, 1e-4, 1e-3, 1.0)]
    assert plain == [0, 10, 19, 20]
    io = LinearCost(0.0, 1e-4)
    assert [recomputed_chunks([n] * 5 + [25] * 15, recompute, io) for n in (400, 25)] == [5, 4]
    assert recomputed_chunks([0] * 20, recompute, LinearCost(0.0, 1.0)) == 0, "what is in memory is not read"
