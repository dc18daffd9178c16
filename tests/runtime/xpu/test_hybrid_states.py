"""However a hybrid model is cut, equal batches have equal logits, and use the state rows that they name."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import openvino as ov
import openvino.opset15 as opset
import pytest
from numpy.typing import NDArray

from agentrt.errors import ConfigurationError, ModelFormatError
from agentrt.runtime.heg.kernel import Role, StateAccess
from agentrt.runtime.heg.partition import Partition
from agentrt.runtime.model.directory import ModelDirectory
from agentrt.runtime.model.openvino_core import openvino_core
from agentrt.runtime.model.read_graph import read_paged_graph
from agentrt.runtime.xpu import device
from agentrt.runtime.xpu.kv_arena import KVArena
from agentrt.runtime.xpu.loading import LoadedModel
from tests.hypothesis_profiles import first_of
from tests.runtime.tiny import (
    HYBRID_FAMILIES,
    ZERO_STATE,
    Piece,
    begin,
    finish,
    forward,
    load,
    step,
    uncut,
    unpack_hybrid,
)

pytestmark = pytest.mark.slow

tokens_of = np.random.default_rng(0).integers(5, 2000, 400).tolist()

Pair: TypeAlias = tuple[LoadedModel, LoadedModel]


@pytest.fixture(scope="module", params=first_of(reversed(HYBRID_FAMILIES)))
def directory(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ModelDirectory:
    return unpack_hybrid(request.param, tmp_path_factory.mktemp("hybrids") / request.param)


@pytest.fixture(scope="module")
def pair(directory: ModelDirectory) -> Pair:
    """One model in one piece, and in segments of one layer."""
    return uncut(directory), load(directory)


def piece(first: int, end: int, *rows: int, past: int = 0, interval: int = 0, **more: Any) -> Piece:
    return Piece(tokens_of[first:end], first, states=StateAccess(rows, past, interval), **more)


def test_a_layer_is_an_attention_or_a_recurrence(directory: ModelDirectory, pair: Pair) -> None:
    partition = Partition(read_paged_graph(directory))
    assert (partition.layers, partition.seams, partition.splits) == (4, {1, 2, 3}, False)
    whole, cut = pair
    assert len(begin(cut, piece(0, 32, ZERO_STATE, 0)).kernels) == 4
    assert len(begin(whole, piece(0, 32, ZERO_STATE, 0)).kernels) == 1


def test_chunks_decodes_and_batches_have_the_same_logits(pair: Pair) -> None:
    def logits(loaded: LoadedModel) -> list[NDArray[np.float32]]:
        other = {"table": range(20, 30)}
        return [
            forward(loaded, piece(0, 50, ZERO_STATE, 0)),
            forward(loaded, piece(50, 83, 0, 1)),
            *(forward(loaded, piece(at, at + 1, at % 2, (at + 1) % 2)) for at in range(83, 87)),
            forward(loaded, piece(0, 40, ZERO_STATE, 5, **other)),
            forward(loaded, piece(87, 88, 1, 0), piece(40, 45, 5, 6, **other)),
        ]

    whole, cut = (logits(loaded) for loaded in pair)
    for expected, found in zip(whole, cut, strict=True):
        np.testing.assert_array_equal(found, expected)
    alone = forward(pair[0], piece(0, 88, ZERO_STATE, 0))
    np.testing.assert_allclose(whole[-1][0], alone[0], atol=1e-5)


def test_former_lengths_are_computed_after_a_fault(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(inference: ov.InferRequest, deadline: float) -> bool:
        inference.wait()
        raise RuntimeError("out of luck")

    _, cut = pair
    expected = forward(cut, piece(0, 50, ZERO_STATE, 0))
    monkeypatch.setattr(device, "_QUICK_S", 0.0)
    monkeypatch.setattr(device, "wait_until", fail)
    failing = begin(cut, piece(0, 83, ZERO_STATE, 1))
    kernel = failing.next_kernel
    assert kernel is not None
    done = cut.platform.xpus[Role.DECODE].run(kernel, failing, 30)
    assert done is not None
    assert done.error is not None
    monkeypatch.undo()
    np.testing.assert_array_equal(forward(cut, piece(0, 50, ZERO_STATE, 2)), expected)


def test_a_paused_batch_goes_on_beside_others(pair: Pair) -> None:
    whole, cut = pair
    expected = forward(whole, piece(0, 60, ZERO_STATE, 0))
    urgent = forward(whole, Piece(tokens_of[200:217], 0, range(30, 40), states=StateAccess((ZERO_STATE, 7))))
    paused = begin(cut, piece(0, 60, ZERO_STATE, 0))
    while paused.next_kernel is not None:
        step(cut, paused)
        other = Piece(tokens_of[200:217], 0, range(30, 40), states=StateAccess((ZERO_STATE, 7)))
        np.testing.assert_array_equal(forward(cut, other), urgent)
    np.testing.assert_array_equal(finish(cut, paused), expected)


@pytest.mark.parametrize(
    ("past", "interval", "checkpoints"),
    [(0, 32, (32, 64, 96, 128, 160, 192)), (64, 128, (64, 192)), (0, 192, (192,))],
)
def test_a_sequence_goes_on_from_every_checkpoint(
    pair: Pair, past: int, interval: int, checkpoints: tuple[int, ...]
) -> None:
    loaded = pair[1]
    rows = range(10, 11 + len(checkpoints))
    expected = forward(loaded, piece(0, 200, ZERO_STATE, *rows, past=past, interval=interval))
    np.testing.assert_array_equal(expected, forward(loaded, piece(0, 200, ZERO_STATE, 0)))
    for row, checkpoint in zip(rows, checkpoints, strict=False):
        np.testing.assert_allclose(forward(loaded, piece(checkpoint, 200, row, 1)), expected, atol=1e-5)


def test_the_budget_is_used_by_blocks_and_state_rows(pair: Pair) -> None:
    loaded = pair[0]
    layout = loaded.layout
    for memory_bytes in (2**17, 2**20, 2**22 + 1):
        arena = KVArena(layout, loaded.platform, memory_bytes)
        used = arena.blocks * layout.block_bytes + (arena.state_rows + 1) * layout.row_bytes
        assert used == arena.memory_bytes <= memory_bytes < used + layout.block_bytes
        assert arena.state_rows >= 3
        assert (arena.state_rows + 1) * layout.row_bytes <= max(memory_bytes // 2, 4 * layout.row_bytes)
    with pytest.raises(ConfigurationError, match="hybrid model"):
        KVArena(layout, loaded.platform, 4 * layout.row_bytes + layout.block_bytes - 1)


def test_every_input_has_one_name(directory: ModelDirectory) -> None:
    names = [port.names for port in read_paged_graph(directory).inputs]
    assert all(len(own) == 1 for own in names)
    assert {"position_ids"} in names


def test_a_graph_that_counts_positions_itself_is_refused(tmp_path: Path) -> None:
    """The transformation does not find its positions, and counts from the longest context of the batch."""
    directory = unpack_hybrid("lfm2", tmp_path / "exported")
    model = openvino_core().read_model(directory.graph)
    for node in model.get_ordered_ops():
        if node.get_type_name() == "Range":
            targets = node.output(0).get_target_inputs()
            same = opset.add(node, opset.constant(0, node.get_output_element_type(0)))
            for target in targets:
                target.replace_source_output(same.output(0))
    changed = tmp_path / "changed"
    ov.save_model(model, changed / "openvino_model.xml")
    with pytest.raises(ModelFormatError, match="positions itself"):
        read_paged_graph(ModelDirectory(changed, "changed", 2048, frozenset()))
