"""Attention scores of real kernels: the sums that OpenVINO computes, cut into kernels and chunks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from agentrt.runtime.heg.kernel import BatchContext
from agentrt.runtime.xpu.loading import LoadedModel
from tests.runtime.tiny import Piece, begin, load, step, tiny_model

TOKENS = [7 * at % 500 for at in range(80)]
LAYERS = 2


def scores_of(loaded: LoadedModel, *pieces: Piece) -> list[np.ndarray]:
    context: BatchContext = begin(loaded, *pieces)
    while context.next_kernel is not None:
        step(loaded, context)
    loaded.platform.release(context)
    return context.scores


@pytest.fixture(scope="module", params=["cpu", "emulated"])
def loaded(request: pytest.FixtureRequest, tiny_folder: Path) -> LoadedModel:
    static = 64 if request.param == "emulated" else None
    return load(tiny_model(tiny_folder, "qwen2"), request.param, static_tokens=static, scored_layers=LAYERS)


def test_each_new_token_pays_one_attention_in_each_head(loaded: LoadedModel) -> None:
    scores = scores_of(loaded, Piece(TOKENS[:64]))
    assert [layer.shape for layer in scores] == [(64,)] * LAYERS
    heads = scores[0].sum() / 64
    assert heads == pytest.approx(round(heads), rel=1e-4)
    assert all((layer >= 0).all() for layer in scores)


def test_chunks_add_up(loaded: LoadedModel) -> None:
    whole = scores_of(loaded, Piece(TOKENS))
    first = scores_of(loaded, Piece(TOKENS[:64], table=range(20, 36)))
    second = scores_of(loaded, Piece(TOKENS[64:], 64, table=range(20, 36)))
    for layer, early, late in zip(whole, first, second, strict=True):
        assert np.pad(early, (0, 16)) + late == pytest.approx(layer, abs=1e-3)


def test_sequences_of_a_batch_come_one_after_the_other(loaded: LoadedModel) -> None:
    scores = scores_of(loaded, Piece(TOKENS[:40]), Piece(TOKENS[:10], table=range(40, 44)))
    alone = scores_of(loaded, Piece(TOKENS[:40]))
    assert [len(layer) for layer in scores] == [50] * LAYERS
    for both, first in zip(scores, alone, strict=True):
        assert both[:40] == pytest.approx(first, abs=1e-4)
        assert both[40:].sum() == pytest.approx(first.sum() / 4, rel=1e-4)


def test_nothing_is_scored_unless_wanted(tiny_folder: Path) -> None:
    assert scores_of(load(tiny_model(tiny_folder, "qwen2")), Piece(TOKENS)) == []
