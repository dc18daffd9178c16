"""The levels that information density gives the chunks of a context under a budget."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.runtime.kv.compression.codec import BitPlan, BlockCodec
from agentrt.runtime.kv.compression.levels import ContextCompression, LevelCost, choose_levels
from tests.hypothesis_profiles import examples
from tests.runtime.kv.compression.made_up_blocks import layout_of

COSTS = (LevelCost(8, 100, 0.0), LevelCost(4, 48, 1.0), LevelCost(2, 27, 20.0))
BYTES = {cost.level: cost.bytes for cost in COSTS}
LOSS = {cost.level: cost.loss for cost in COSTS}
densities = st.lists(st.floats(0, 1), max_size=7)


def mean_loss(levels: tuple[int, ...]) -> float:
    return sum(LOSS[level] for level in levels) / max(1, len(levels))


def bytes_at(levels: tuple[int, ...]) -> int:
    return sum(BYTES[level] for level in levels)


def loss_of(levels: tuple[int, ...] | list[int], of: list[float]) -> float:
    return sum(LOSS[level] * density for level, density in zip(levels, of, strict=True))


@st.composite
def capped(draw: st.DrawFn) -> tuple[list[float], list[int]]:
    """Densities, and the highest level that each chunk may have."""
    of = draw(densities)
    return of, draw(st.lists(st.sampled_from([8, 8, 4, 2]), min_size=len(of), max_size=len(of)))


@examples(500)
@given(
    chunks=capped(),
    budget=st.integers(0, 800),
    allowed=st.sampled_from([(8,), (8, 4), (4, 2), (8, 4, 2)]),
    tolerance=st.sampled_from([0.0, 0.5, 1.0, 4.0, 30.0]),
)
def test_no_other_levels_within_budget_and_tolerance_lose_less(
    chunks: tuple[list[float], list[int]], budget: int, allowed: tuple[int, ...], tolerance: float
) -> None:
    of, most = chunks
    costs = [cost for cost in COSTS if cost.level in allowed]
    chosen = tuple(choose_levels(of, most, costs, budget, tolerance))
    possible = [[level for level in allowed if level <= max(cap, min(allowed))] for cap in most]
    tolerable = [each for each in itertools.product(*possible) if mean_loss(each) <= tolerance + 1e-9]
    within = [each for each in tolerable if bytes_at(each) <= budget]
    if within:
        assert chosen in within
        assert loss_of(chosen, of) <= min(loss_of(each, of) for each in within) + 1e-9
    elif tolerable:
        assert chosen in tolerable
        assert bytes_at(chosen) == min(map(bytes_at, tolerable))
    else:
        assert chosen == tuple(max(each) for each in possible)


@given(chunks=capped(), ratio=st.floats(0.3, 1))
def test_a_denser_chunk_never_has_fewer_bits_than_another_that_had_as_many(
    chunks: tuple[list[float], list[int]], ratio: float
) -> None:
    of, most = chunks
    levels = choose_levels(of, most, COSTS, int(ratio * 100 * len(of)), 100.0)
    for (a, cap, level), (b, other_cap, other) in itertools.combinations(
        zip(of, most, levels, strict=True), 2
    ):
        if cap == other_cap:
            assert level >= other if a > b else level <= other


@pytest.mark.parametrize(
    "costs",
    [(), (LevelCost(8, 100, 1.0), LevelCost(4, 50, 0.0)), tuple(LevelCost(b, b, -b) for b in (8, 6, 4, 2))],
)
def test_costs_that_make_no_sense_are_refused(costs: tuple[LevelCost, ...]) -> None:
    with pytest.raises(ValueError, match="levels"):
        choose_levels([1.0], [8], costs, 100, 1.0)


CODEC = BlockCodec(layout_of("u8", layers=4, size=64))
LOSSES = {8: 0.0, 4: 0.004, 2: 0.05}


def bytes_of(levels: list[int], positions: Iterable[int]) -> int:
    return sum(CODEC.payload_bytes(level, at) for level, at in zip(levels, positions, strict=True))


@given(
    densities=st.lists(st.floats(0, 1), min_size=1, max_size=60),
    first=st.integers(0, 5),
    ratio=st.floats(0.3, 1),
    tolerance=st.floats(0.004, 0.06),
)
def test_the_chunks_of_a_context_have_the_ratio_that_the_tolerance_allows(
    densities: list[float], first: int, ratio: float, tolerance: float
) -> None:
    positions = list(range(first, first + len(densities)))
    levels = ContextCompression(CODEC, LOSSES, ratio, tolerance).levels(
        densities, positions, [None] * len(positions)
    )
    free = [level for level, at in zip(levels, positions, strict=True) if at]
    assert sum(LOSSES[level] for level in free) <= tolerance * len(free) + 1e-9
    whole = CODEC.payload_bytes(8, 9)
    # As many at the lowest level as the tolerance allows, and the others at the middle one.
    low = int(len(free) * min(1.0, (tolerance - LOSSES[4]) / (LOSSES[2] - LOSSES[4])))
    least = bytes_of([4] * (len(free) - low) + [2] * low, range(1, len(free) + 1))
    least += whole * (len(levels) - len(free))
    assert bytes_of(levels, positions) <= max(ratio * whole * len(levels), least)
    assert first or levels[0] == 8, "the first block is protected"


def test_levels_that_the_model_does_not_bear_are_not_used() -> None:
    compression = ContextCompression(CODEC, {8: 0.0, 4: 0.004}, 0.3, 0.005)
    assert compression.levels([0.5, 0.1, 0.1], [4, 5, 6], [None] * 3) == [4, 4, 4]


def test_without_levels_chunks_are_stored_as_they_are() -> None:
    codec = BlockCodec(layout_of("u8"), BitPlan({}))
    assert ContextCompression(codec, {}, 0.5, 0.005).levels([0.5, 0.1], [0, 1], [None, 0]) == [0, 0]


def test_chunks_that_were_not_measured_go_by_their_positions() -> None:
    compression = ContextCompression(CODEC, LOSSES, 0.5, 0.05)
    positions = list(range(3, 23))
    levels = compression.levels([0.0] * 20, positions, [None] * 20)
    assert levels == sorted(levels)
    assert bytes_of(levels, positions) <= 0.5 * 20 * CODEC.payload_bytes(8, 9)
