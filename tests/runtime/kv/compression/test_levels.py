"""Information density of chunks, and the levels that it gives them under a budget."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.runtime.kv.compression.codec import BitPlan, BlockCodec
from agentrt.runtime.kv.compression.levels import (
    AttentionMass,
    ContextCompression,
    LevelCost,
    choose_levels,
    densities_by_position,
)
from tests.runtime.kv.compression.made_up_blocks import layout_of

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


CODEC = BlockCodec(layout_of("u8", layers=4, size=64))
LOSSES = {8: 0.0, 4: 0.004, 2: 0.05}


def bytes_of(levels: list[int], positions: list[int]) -> int:
    return sum(CODEC.payload_bytes(level, at) for level, at in zip(levels, positions, strict=True))


@given(
    densities=st.lists(st.floats(0, 1), min_size=1, max_size=60),
    first=st.integers(0, 5),
    ratio=st.floats(0.3, 1),
)
def test_chunks_have_the_ratio_among_themselves(densities: list[float], first: int, ratio: float) -> None:
    positions = list(range(first, first + len(densities)))
    levels = ContextCompression(CODEC, LOSSES, ratio).levels(densities, positions)
    whole = CODEC.payload_bytes(8, 9)
    within = ratio * whole * len(levels)
    least = bytes_of([2] * len(levels), positions)
    assert bytes_of(levels, positions) <= max(within, least)
    assert first or levels[0] == 8, "the first block is protected"


def test_levels_that_the_model_does_not_bear_are_not_used() -> None:
    compression = ContextCompression(CODEC, {8: 0.0, 4: 0.004}, 0.3)
    assert compression.levels([0.5, 0.1, 0.1], [4, 5, 6]) == [4, 4, 4]


def test_without_levels_chunks_are_stored_as_they_are() -> None:
    codec = BlockCodec(layout_of("u8"), BitPlan({}))
    assert ContextCompression(codec, {}, 0.5).levels([0.5, 0.1], [0, 1]) == [0, 0]


def test_chunks_that_were_not_measured_go_by_their_positions() -> None:
    compression = ContextCompression(CODEC, LOSSES, 0.5)
    positions = list(range(3, 23))
    levels = compression.levels([0.0] * 20, positions)
    assert levels == sorted(levels)
    assert bytes_of(levels, positions) <= 0.5 * 20 * CODEC.payload_bytes(8, 9)


def causal_attention(tokens: int, seed: int = 0) -> np.ndarray:
    """Return attention ``[layers, heads, tokens, tokens]`` whose rows add up to 1."""
    random = np.random.default_rng(seed)
    scores = np.tril(random.random((2, 3, tokens, tokens)) ** 4 + 1e-9)
    return scores / scores.sum(-1, keepdims=True)


def eq_1(attention: np.ndarray, block_tokens: int, blocks: int) -> list[float]:
    """Equation 1 as it is written, over the rows that see a column."""
    tokens = attention.shape[-1]
    columns = attention.mean((0, 1)).sum(0) / (tokens - np.arange(tokens))
    return [float(columns[at * block_tokens : (at + 1) * block_tokens].mean()) for at in range(blocks)]


@given(cuts=st.sets(st.integers(1, 31)), seed=st.integers(0, 100))
def test_chunks_of_a_prefill_add_up_to_equation_1(cuts: set[int], seed: int) -> None:
    attention = causal_attention(32, seed)
    mass = AttentionMass()
    begins = [0, *sorted(cuts)]
    for begin, end in zip(begins, [*begins[1:], 32], strict=True):
        per_layer = attention[:, :, begin:end, :end].sum((1, 2))
        mass.add([layer.astype(np.float32) for layer in per_layer], begin)
    assert mass.densities(8, 4) == pytest.approx(eq_1(attention, 8, 4), rel=1e-4)


def test_a_prefix_that_was_not_computed_is_measured_by_what_follows_it() -> None:
    mass = AttentionMass()
    mass.add([np.array([0.5, 0.5, 1.0, 0.0], np.float32)], past=2)
    assert mass.densities(2, 2) == [0.25, 0.25]


def test_blocks_that_nothing_has_been_measured_of_have_no_density() -> None:
    assert AttentionMass().densities(4, 2) == [0.0, 0.0]
    mass = AttentionMass()
    mass.add([np.ones(3, np.float32)], past=2)
    assert mass.densities(3, 2)[1] == 0.0
