from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.runtime.kv.compression.density import AttentionMass


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
