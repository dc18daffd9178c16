from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from agentrt.runtime.kv.compression.codec import BitPlan, BlockCodec
from agentrt.runtime.kv.compression.tolerance import (
    PREFIX_TOKENS,
    SCORED_TOKENS,
    CompressionPlan,
    allocate_bits,
    probe,
    probe_texts,
    upper_bound,
)
from tests.runtime.kv.compression.made_up_blocks import TOKENS, formats_of, layout_of, random_rows

pytestmark = pytest.mark.slow

LAYERS = 4
LAYOUT = layout_of("u8", layers=LAYERS, heads=1, size=16)
NAMES = sorted(cache.name for cache in LAYOUT.caches)
TEXTS = [[text] * (PREFIX_TOKENS + SCORED_TOKENS) for text in range(1, 7)]
BLOCKS = PREFIX_TOKENS // TOKENS


class Model:
    """Predicts by sums over its caches: the larger a cache's weight, the more its errors matter."""

    def __init__(self, weights: Sequence[float], hard_text: float = 1.0) -> None:
        """Errors of the last text matter ``hard_text`` times as much."""
        self.rows = [np.zeros((BLOCKS + 6, format.block_bytes), np.uint8) for format in formats_of(LAYOUT)]
        self._weights = weights
        self._hard_text = hard_text
        self._signs = np.random.default_rng(9).choice([-1.0, 1.0], (SCORED_TOKENS, 4, 16 * TOKENS * BLOCKS))
        self.passes = 0

    def forward(self, tokens: Sequence[int], past: int, rows: int) -> NDArray[np.float32]:
        self.passes += 1
        if not past:
            for cache, written in zip(self.rows, random_rows(LAYOUT, BLOCKS, tokens[0]), strict=True):
                cache[:BLOCKS] = written
        logits = np.zeros((rows, 4))
        for format, cache, weight in zip(formats_of(LAYOUT), self.rows, self._weights, strict=True):
            numbers = format.numbers(cache[:BLOCKS])
            spread = np.abs(numbers).mean() * np.sqrt(numbers.size)
            weight *= self._hard_text if tokens[0] == len(TEXTS) else 1.0
            logits += weight / spread * (self._signs[SCORED_TOKENS - rows :] @ numbers.reshape(-1))
        return logits.astype(np.float32)


def plan_of(model: Model, tolerance: float = 0.005) -> CompressionPlan:
    return probe(model, len(NAMES), TOKENS, functools.partial(BlockCodec, LAYOUT), TEXTS, tolerance)


def weights(everywhere: float, **of: float) -> list[float]:
    return [of.get(name.replace("_cache.", ""), everywhere) for name in NAMES]


def test_a_model_that_errors_hardly_matter_to_bears_two_bits() -> None:
    plan = plan_of(Model(weights(0.02)))
    assert set(plan.bits) == {8, 4, 2}
    assert plan.bits[2] == (2,) * len(NAMES)
    assert plan.losses[8] == 0 < plan.losses[4] < plan.losses[2]
    assert plan.refused == {}


def test_levels_that_cost_more_than_the_tolerance_are_refused() -> None:
    model = Model(weights(3.0))
    plan = plan_of(model, tolerance=1e-5)
    assert model.passes <= len(TEXTS) * 14 + 2 * len(NAMES)
    assert set(plan.bits) == {8}
    assert plan.refused[4] > 1e-5
    assert set(plan_of(Model(weights(3.0)), tolerance=1.0).bits) == {8, 4, 2}


def test_one_kind_of_text_that_suffers_counts() -> None:
    even, uneven = (plan_of(Model(weights(0.3), hard_text=times)) for times in (1.0, 7.0))
    assert np.mean(uneven.bits[4]) > np.mean(even.bits[4]) == 4, "it has 4 if only the mean counts"
    assert uneven.losses[4] <= 0.005


@pytest.mark.parametrize(
    ("samples", "bound"),
    [([0.1, 0.1, 0.1], 0.1), ([0.0, 0.2], 0.1 + 6.314 * 0.1), ([1, 2, 3, 4, 5, 6], 5.04)],
)
def test_a_mean_has_an_upper_bound(samples: list[float], bound: float) -> None:
    assert upper_bound(samples) == pytest.approx(bound, abs=0.01)


def test_a_level_gets_as_many_bits_as_the_model_needs() -> None:
    plan = plan_of(Model(weights(2.5)))
    assert 4 < np.mean(plan.bits[4]) <= 6
    assert plan.losses[4] <= 0.005


def test_caches_that_matter_more_have_more_bits() -> None:
    plan = plan_of(Model(weights(0.01, value1=0.2, key2=0.2)))
    by_name = dict(zip(NAMES, plan.bits[4], strict=True))
    for kind, layer in (("value", 1), ("key", 2)):
        others = [by_name[f"{kind}_cache.{other}"] for other in range(LAYERS) if other != layer]
        assert by_name[f"{kind}_cache.{layer}"] > max(others)
    assert np.mean(plan.bits[4]) == 4


@given(st.lists(st.floats(1e-6, 1), min_size=1, max_size=5), st.sampled_from([2.0, 3.0, 4.0, 6.0]))
def test_no_other_bits_of_the_same_mean_do_less_harm(sensitivities: list[float], mean: float) -> None:
    def harm(bits: Sequence[int]) -> float:
        return sum(each * 4.0**-width for each, width in zip(sensitivities, bits, strict=True))

    chosen = allocate_bits(sensitivities, mean)
    assert sum(chosen) == mean * len(sensitivities)
    same = (
        bits for bits in itertools.product(range(2, 9), repeat=len(sensitivities)) if sum(bits) == sum(chosen)
    )
    assert harm(chosen) <= min(map(harm, same)) * (1 + 1e-9)


def test_what_was_measured_can_be_stored_and_read() -> None:
    plan = plan_of(Model(weights(0.05)))
    again = CompressionPlan.model_validate_json(plan.model_dump_json())
    assert again == plan
    layout_bits = BlockCodec(LAYOUT, again.bit_plan)
    assert layout_bits.fingerprint == BlockCodec(LAYOUT, plan.bit_plan).fingerprint
    assert layout_bits.fingerprint != BlockCodec(LAYOUT, BitPlan.uniform(len(NAMES), (8,))).fingerprint


@pytest.mark.parametrize("text", probe_texts())
def test_texts_are_long_enough_for_any_tokenizer(text: str) -> None:
    assert len(text) > 7 * (PREFIX_TOKENS + SCORED_TOKENS)
