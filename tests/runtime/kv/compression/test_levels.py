from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.runtime.kv.compression.levels import LevelCost, choose_levels, densities_by_position

COSTS = (LevelCost(8, 100, 0.0), LevelCost(4, 48, 1.0), LevelCost(2, 27, 20.0))
BYTES = {cost.level: cost.bytes for cost in COSTS}
LOSS = {cost.level: cost.loss for cost in COSTS}
densities = st.lists(st.floats(0, 1), max_size=7)


def loss_of(levels: tuple[int, ...] | list[int], of: list[float]) -> float:
    return sum(LOSS[level] * density for level, density in zip(levels, of, strict=True))


@given(of=densities, budget=st.integers(0, 800), allowed=st.sampled_from([(8,), (8, 4), (4, 2), (8, 4, 2)]))
def test_no_other_levels_within_the_budget_lose_less(
    of: list[float], budget: int, allowed: tuple[int, ...]
) -> None:
    chosen = choose_levels(of, [cost for cost in COSTS if cost.level in allowed], budget)
    least = min(allowed)
    if budget < len(of) * BYTES[least]:
        assert chosen == [least] * len(of)
        return
    assert sum(BYTES[level] for level in chosen) <= budget
    best = min(
        loss_of(levels, of)
        for levels in itertools.product(allowed, repeat=len(of))
        if sum(BYTES[level] for level in levels) <= budget
    )
    assert loss_of(chosen, of) <= best + 1e-9


@given(of=densities, ratio=st.floats(0.3, 1))
def test_a_denser_chunk_never_has_fewer_bits(of: list[float], ratio: float) -> None:
    levels = choose_levels(of, COSTS, int(ratio * 100 * len(of)))
    for (a, level), (b, other) in itertools.combinations(zip(of, levels, strict=True), 2):
        assert level >= other if a > b else level <= other


def test_a_chunk_that_carries_nothing_pays_for_one_that_carries_much() -> None:
    levels = choose_levels([0.9, 0.02, 0.0, 0.0, 0.02], COSTS, 250)
    assert levels == [8, 4, 2, 2, 4]


@pytest.mark.parametrize(
    "costs",
    [(), (LevelCost(8, 100, 1.0), LevelCost(4, 50, 0.0)), tuple(LevelCost(b, b, -b) for b in (8, 6, 4, 2))],
)
def test_costs_that_make_no_sense_are_refused(costs: tuple[LevelCost, ...]) -> None:
    with pytest.raises(ValueError, match="levels"):
        choose_levels([1.0], costs, 100)


def test_without_scores_the_first_and_the_last_chunks_are_densest() -> None:
    assert densities_by_position([]) == []
    first, *others = densities_by_position([0, 1, 2, 3])
    assert first > max(others)
    assert others == sorted(others)
    continued = densities_by_position([7, 8, 9])
    assert continued == sorted(continued)
