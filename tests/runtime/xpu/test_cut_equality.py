"""However a model is cut, and wherever its kernels run, equal batches have the same logits, bit for bit."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from agentrt.runtime.heg.kernel import BatchContext, KernelKind, Role
from agentrt.runtime.xpu.loading import LoadedModel
from tests.hypothesis_profiles import examples, first_of
from tests.runtime.tiny import (
    ARCHITECTURES,
    EXACT,
    VOCABULARY,
    Piece,
    begin,
    exported_models,
    finish,
    forward,
    load,
    step,
    tiny_model,
    uncut,
)

Trio: TypeAlias = tuple[LoadedModel, LoadedModel, LoadedModel]

MODELS = ("nano", *ARCHITECTURES, *exported_models())
STATIC = 32

tokens_of = np.random.default_rng(0).integers(5, VOCABULARY - 1, 400).tolist()


@pytest.fixture(scope="module", params=first_of(MODELS), ids=lambda name: Path(name).name)
def trio(request: pytest.FixtureRequest, tiny_folder: Path) -> Trio:
    """One model in one piece, in segments of one layer, and split between two XPUs."""
    directory = tiny_model(tiny_folder, request.param)
    return uncut(directory), load(directory), load(directory, "emulated", static_tokens=STATIC)


def test_every_layer_is_a_segment_and_every_chunk_of_the_static_shape_splits(trio: Trio) -> None:
    whole, cut, split = trio
    layers = cut.graph.layers
    assert len(begin(cut, Piece(tokens_of[:STATIC])).kernels) == layers
    kinds = [kernel.kind for kernel in begin(split, Piece(tokens_of[:STATIC])).kernels]
    assert kinds.count(KernelKind.ATTENTION) == layers - 1
    assert kinds.count(KernelKind.TOKENS) == layers
    assert len(begin(whole, Piece(tokens_of[:STATIC])).kernels) == 1


def test_prefill_chunks_margins_and_decodes_have_the_same_logits(trio: Trio) -> None:
    def logits(loaded: LoadedModel) -> list[NDArray[np.float32]]:
        # Two chunks of the static shape, a margin, decodes; beside another sequence in the end.
        return [
            forward(loaded, Piece(tokens_of[:32], samples=False)),
            forward(loaded, Piece(tokens_of[32:64], 32)),
            forward(loaded, Piece(tokens_of[64:83], 64)),
            *(forward(loaded, Piece(tokens_of[at : at + 1], at)) for at in range(83, 86)),
            forward(loaded, Piece(tokens_of[100:140], table=range(20, 30))),
            forward(loaded, Piece(tokens_of[86:87], 86), Piece(tokens_of[140:141], 40, range(20, 30))),
        ]

    whole, *others = (logits(loaded) for loaded in trio)
    assert [part.shape[0] for part in whole] == [0, 1, 1, 1, 1, 1, 1, 2]
    assert whole[-1].std() > 0
    for other in others:
        for expected, found in zip(whole, other, strict=True):
            np.testing.assert_array_equal(found, expected)


def test_drafts_are_verified_at_every_position(trio: Trio) -> None:
    """Several rows of one sequence have logits, and blocks alias between chunks of one batch."""
    whole, cut, _ = trio
    results = []
    for loaded in (whole, cut):
        forward(loaded, Piece(tokens_of[:40]))
        context = begin(loaded, Piece(tokens_of[40:44], 40))
        assert context.inputs is not None
        context.inputs.sampled_rows[:] = [0, 1, 2, 3]
        context.shape = context.inputs.shape
        results.append(finish(loaded, context))
    assert results[0].shape[0] == 4
    np.testing.assert_array_equal(results[0], results[1])


def test_preempted_batch_resumes_where_it_was(trio: Trio) -> None:
    whole, *others = trio
    expected = forward(whole, Piece(tokens_of[:32]))
    urgent = forward(whole, Piece(tokens_of[200:217], table=range(30, 40)))
    for loaded in others:
        paused = begin(loaded, Piece(tokens_of[:32]))
        while paused.next_kernel is not None:
            step(loaded, paused)
            other = Piece(tokens_of[200:217], table=range(30, 40))
            np.testing.assert_array_equal(forward(loaded, other), urgent)
        np.testing.assert_array_equal(finish(loaded, paused), expected)


def test_two_chunks_of_a_prompt_may_be_computed_layer_by_layer(trio: Trio) -> None:
    """One XPU begins a layer of the second chunk once the other has written that layer of the first."""
    whole, _, split = trio
    forward(whole, Piece(tokens_of[:STATIC], samples=False))
    expected = forward(whole, Piece(tokens_of[STATIC:70], STATIC))
    first = begin(split, Piece(tokens_of[:STATIC], samples=False))
    second = begin(split, Piece(tokens_of[STATIC:70], STATIC), avoid=Role.PREFILL)
    turns = 0
    while first.next_kernel is not None:
        step(split, first)
        while (kernel := second.next_kernel) is not None and kernel.layers.stop <= first.attended_layers:
            step(split, second)
            turns += first.next_kernel is not None
    assert turns > 0
    np.testing.assert_array_equal(finish(split, second), expected)
    finish(split, first)


# One token is computed by other kernels than several, and STATIC tokens on two XPUs.
chunkings = st.lists(st.sampled_from([1, STATIC]) | st.integers(1, 70), min_size=1, max_size=4)
routes = st.sampled_from([None, Role.PREFILL])


@pytest.fixture(scope="module")
def unquantised_pair(tiny_folder: Path) -> tuple[LoadedModel, LoadedModel]:
    """Nano in one piece and split."""
    directory, properties = tiny_model(tiny_folder, "nano"), EXACT | {"DYNAMIC_QUANTIZATION_GROUP_SIZE": 0}
    split = load(directory, "emulated", static_tokens=STATIC, properties=properties)
    return uncut(directory, properties), split


def chunked(loaded: LoadedModel, chunks: list[int], avoid: Role | None = None) -> list[NDArray[np.float32]]:
    """The logits of the last token of each chunk."""
    ends = itertools.accumulate(chunks, initial=0)
    return [
        forward(loaded, Piece(tokens_of[past:end], past), avoid=avoid)
        for past, end in itertools.pairwise(ends)
    ]


@examples(15)
@given(chunks=chunkings, avoid=routes)
def test_the_same_chunks_have_the_same_logits_on_any_route(
    trio: Trio, chunks: list[int], avoid: Role | None
) -> None:
    whole, _, split = trio
    for expected, found in zip(chunked(whole, chunks), chunked(split, chunks, avoid), strict=True):
        np.testing.assert_array_equal(found, expected)


@examples(15)
@given(chunks=chunkings, avoid=routes)
@example(chunks=[2, 70, 1], avoid=None)
def test_any_chunking_has_nearly_the_same_logits(
    unquantised_pair: tuple[LoadedModel, LoadedModel], chunks: list[int], avoid: Role | None
) -> None:
    """OpenVINO adds in another order for one token than for several: the last bits differ.

    Quantised activations are off here because they amplify that: a last bit that moves a value across a
    rounding boundary changes its int8 code, and the next layers turn the step into up to 0.3 of a logit. The
    logits' standard deviation is 4.4.
    """
    whole, split = unquantised_pair
    at_once = forward(whole, Piece(tokens_of[: sum(chunks)]))
    np.testing.assert_allclose(chunked(split, chunks, avoid)[-1], at_once, rtol=0, atol=5e-4)


@pytest.mark.check
@pytest.mark.parametrize("kv", ["u8", "bf16"])
def test_in_bf16_a_cut_model_rounds_where_the_whole_does(tiny_folder: Path, kv: str) -> None:
    directory = tiny_model(tiny_folder, "nano")
    properties = EXACT | {"INFERENCE_PRECISION_HINT": "bf16", "KV_CACHE_PRECISION": kv}
    whole, cut = uncut(directory, properties), load(directory, properties=properties)
    split = load(directory, "emulated", static_tokens=STATIC, properties=properties)
    exact = uncut(directory)
    for piece in (
        Piece(tokens_of[:STATIC]),
        Piece(tokens_of[STATIC:64], STATIC),
        Piece(tokens_of[64:65], 64),
    ):
        expected = forward(whole, piece)
        np.testing.assert_array_equal(forward(cut, piece), expected)
        # Kernels of a static shape may add in another order than those of any: as near as both are to f32.
        reference = forward(exact, piece)
        rounding = np.sqrt(np.mean((expected - reference) ** 2))
        assert 0 < np.sqrt(np.mean((forward(split, piece) - reference) ** 2)) <= 3 * rounding


# Attention scores: the sums that OpenVINO computes, cut into kernels and chunks.

SCORED_TOKENS = [7 * at % 500 for at in range(80)]
SCORED_LAYERS = 2


def scores_of(loaded: LoadedModel, *pieces: Piece) -> list[np.ndarray]:
    context: BatchContext = begin(loaded, *pieces)
    while context.next_kernel is not None:
        step(loaded, context)
    loaded.platform.release(context)
    return context.scores


@pytest.fixture(scope="module", params=["cpu", "emulated"])
def scored(request: pytest.FixtureRequest, tiny_folder: Path) -> LoadedModel:
    static = 64 if request.param == "emulated" else None
    return load(
        tiny_model(tiny_folder, "qwen2"), request.param, static_tokens=static, scored_layers=SCORED_LAYERS
    )


def test_each_new_token_pays_one_attention_in_each_head(scored: LoadedModel) -> None:
    scores = scores_of(scored, Piece(SCORED_TOKENS[:64]))
    assert [layer.shape for layer in scores] == [(64,)] * SCORED_LAYERS
    heads = scores[0].sum() / 64
    assert heads == pytest.approx(round(heads), rel=1e-4)
    assert all((layer >= 0).all() for layer in scores)


def test_chunks_add_up(scored: LoadedModel) -> None:
    whole = scores_of(scored, Piece(SCORED_TOKENS))
    first = scores_of(scored, Piece(SCORED_TOKENS[:64], table=range(20, 36)))
    second = scores_of(scored, Piece(SCORED_TOKENS[64:], 64, table=range(20, 36)))
    for layer, early, late in zip(whole, first, second, strict=True):
        assert np.pad(early, (0, 16)) + late == pytest.approx(layer, abs=1e-3)


def test_sequences_of_a_batch_come_one_after_the_other(scored: LoadedModel) -> None:
    scores = scores_of(scored, Piece(SCORED_TOKENS[:40]), Piece(SCORED_TOKENS[:10], table=range(40, 44)))
    alone = scores_of(scored, Piece(SCORED_TOKENS[:40]))
    assert [len(layer) for layer in scores] == [50] * SCORED_LAYERS
    for both, first in zip(scores, alone, strict=True):
        assert both[:40] == pytest.approx(first, abs=1e-4)
        assert both[40:].sum() == pytest.approx(first.sum() / 4, rel=1e-4)
