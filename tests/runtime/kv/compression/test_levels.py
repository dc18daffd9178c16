"""The levels that information density gives the chunks of a context under a budget."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.runtime.kv.compression.codec import BitPlan, BlockCodec
from agentrt.runtime.kv.compression.levels import ContextCompression, LevelCost, choose_levels
from tests.runtime.kv.compression.made_up_blocks import layout_of

COSTS = (LevelCost(8, 100, 0.0), LevelCost(4, 48, 1.0), LevelCost(2, 27, 20.0))
BYTES = {cost.level: cost.bytes for cost in COSTS}
LOSS = {cost.level: cost.loss for cost in COSTS}
densities = st.lists(st.floats(0, 1), max_size=7)


def loss_of(levels: tuple[int, ...] | list[int], of: list[float]) -> float:
    return sum(LOSS[level] * density for level, density in zip(levels, of, strict=True))


@st.composite
def capped(draw: st.DrawFn) -> tuple[list[float], list[int]]:
    """Densities, and the highest level that each chunk may have."""
    of = draw(densities)
    return of, draw(st.lists(st.sampled_from([8, 8, 4, 2]), min_size=len(of), max_size=len(of)))


@settings(max_examples=500)
@given(
    chunks=capped(), budget=st.integers(0, 800), allowed=st.sampled_from([(8,), (8, 4), (4, 2), (8, 4, 2)])
)
def test_no_other_levels_within_the_budget_lose_less(
    chunks: tuple[list[float], list[int]], budget: int, allowed: tuple[int, ...]
) -> None:
    of, most = chunks
    least = min(allowed)
    chosen = choose_levels(of, most, [cost for cost in COSTS if cost.level in allowed], budget)
    if budget < len(of) * BYTES[least]:
        assert chosen == [least] * len(of)
        return
    assert sum(BYTES[level] for level in chosen) <= budget
    possible = [[level for level in allowed if level <= max(cap, least)] for cap in most]
    assert all(level in each for level, each in zip(chosen, possible, strict=True))
    best = min(
        loss_of(levels, of)
        for levels in itertools.product(*possible)
        if sum(BYTES[level] for level in levels) <= budget
    )
    assert loss_of(chosen, of) <= best + 1e-9


@given(chunks=capped(), ratio=st.floats(0.3, 1))
def test_a_denser_chunk_never_has_fewer_bits_than_another_that_had_as_many(
    chunks: tuple[list[float], list[int]], ratio: float
) -> None:
    of, most = chunks
    levels = choose_levels(of, most, COSTS, int(ratio * 100 * len(of)))
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
        choose_levels([1.0], [8], costs, 100)


CODEC = BlockCodec(layout_of("u8", layers=4, size=64))
LOSSES = {8: 0.0, 4: 0.004, 2: 0.05}


def bytes_of(levels: list[int], positions: list[int]) -> int:
    return sum(CODEC.payload_bytes(level, at) for level, at in zip(levels, positions, strict=True))


@given(
    densities=st.lists(st.floats(0, 1), min_size=1, max_size=60),
    first=st.integers(0, 5),
    ratio=st.floats(0.3, 1),
)
def test_the_chunks_of_a_context_have_the_ratio(densities: list[float], first: int, ratio: float) -> None:
    positions = list(range(first, first + len(densities)))
    levels = ContextCompression(CODEC, LOSSES, ratio).levels(densities, positions, [None] * len(positions))
    whole = CODEC.payload_bytes(8, 9)
    within = ratio * whole * len(levels)
    least = bytes_of([2] * len(levels), positions)
    assert bytes_of(levels, positions) <= max(within, least)
    assert first or levels[0] == 8, "the first block is protected"


def test_levels_that_the_model_does_not_bear_are_not_used() -> None:
    compression = ContextCompression(CODEC, {8: 0.0, 4: 0.004}, 0.3)
    assert compression.levels([0.5, 0.1, 0.1], [4, 5, 6], [None] * 3) == [4, 4, 4]


def test_without_levels_chunks_are_stored_as_they_are() -> None:
    codec = BlockCodec(layout_of("u8"), BitPlan({}))
    assert ContextCompression(codec, {}, 0.5).levels([0.5, 0.1], [0, 1], [None, 0]) == [0, 0]


def test_chunks_that_were_not_measured_go_by_their_positions() -> None:
    compression = ContextCompression(CODEC, LOSSES, 0.5)
    positions = list(range(3, 23))
    levels = compression.levels([0.0] * 20, positions, [None] * 20)
    assert levels == sorted(levels)
    assert bytes_of(levels, positions) <= 0.5 * 20 * CODEC.payload_bytes(8, 9)
