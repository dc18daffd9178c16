"""Information density of chunks, measured while a sequence is computed, request by request."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.runtime.kv.compression.block_attention import BlockAttention
from agentrt.runtime.kv.compression.density import AttentionMass, densities_by_position


def test_without_scores_the_first_and_the_last_chunks_are_densest() -> None:
    assert densities_by_position([]) == []
    first, *others = densities_by_position([0, 1, 2, 3])
    assert first > max(others)
    assert others == sorted(others)
    continued = densities_by_position([7, 8, 9])
    assert continued == sorted(continued)


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
    found = mass.of_blocks(8, 4)
    assert [each.density for each in found] == pytest.approx(eq_1(attention, 8, 4), rel=1e-4)
    assert [each.share for each in found] == [1.0] * 4


@given(cut=st.integers(0, 4), seed=st.integers(0, 100))
def test_requests_of_a_context_add_up_to_equation_1(cut: int, seed: int) -> None:
    attention = causal_attention(32, seed)
    begin, density = 8 * cut, [0.0] * 4
    for past, end in ((0, begin), (begin, 32)):
        if past == end:
            continue
        mass = AttentionMass()
        mass.add([layer.astype(np.float32) for layer in attention[:, :, past:end, :end].sum((1, 2))], past)
        found = mass.of_blocks(8, end // 8)
        density[: len(found)] = [each.joined(former) for each, former in zip(found, density, strict=False)]
    assert density == pytest.approx(eq_1(attention, 8, 4), rel=0.1)


def test_a_prefix_that_was_not_computed_is_measured_by_what_follows_it() -> None:
    mass = AttentionMass()
    mass.add([np.array([0.5, 0.5, 1.0, 0.0], np.float32)], past=2)
    assert [each.density for each in mass.of_blocks(2, 2)] == [0.25, 0.25]


def test_blocks_that_nothing_has_been_measured_of_have_no_density() -> None:
    assert AttentionMass().of_blocks(4, 2) == [BlockAttention()] * 2
    mass = AttentionMass()
    mass.add([np.ones(3, np.float32)], past=2)
    assert mass.of_blocks(3, 2)[1] == BlockAttention()
    assert BlockAttention().joined(0.25) == 0.25
