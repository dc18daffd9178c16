"""An XPU of static shapes computes the same with either graph of each op group, and while they change."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import SimpleQueue

import numpy as np
import openvino as ov
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.errors import GraphLoadError
from agentrt.runtime.heg.kernel import GraphLoad, KernelKind, Role, StaticGraph
from agentrt.runtime.xpu.graph_loader import GraphStore
from agentrt.runtime.xpu.loading import LoadedModel
from agentrt.runtime.xpu.protocol import GraphLoaded
from tests.hypothesis_profiles import examples, first_of
from tests.runtime.tiny import (
    ARCHITECTURES,
    VOCABULARY,
    Piece,
    begin,
    finish,
    forward,
    load,
    step,
    tiny_model,
)

STATIC, DECODE = 32, 8

tokens_of = np.random.default_rng(0).integers(5, VOCABULARY - 1, 400).tolist()


def load_switching(folder: Path, tiny_folder: Path, name: str) -> LoadedModel:
    directory = tiny_model(tiny_folder, name)
    return load(directory, "emulated", static_tokens=STATIC, decode_tokens=DECODE, graph_folder=folder)


@pytest.fixture(scope="module", params=first_of(("nano", *ARCHITECTURES)))
def switching(
    request: pytest.FixtureRequest, tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LoadedModel]:
    loaded = load_switching(tmp_path_factory.mktemp("graphs"), tiny_folder, request.param)
    yield loaded
    loaded.platform.close()


@pytest.fixture
def own(tiny_folder: Path, tmp_path: Path) -> Iterator[LoadedModel]:
    """A model for one test."""
    loaded = load_switching(tmp_path, tiny_folder, "qwen2")
    yield loaded
    loaded.platform.close()


def order(loaded: LoadedModel, group: int, graph: StaticGraph) -> GraphLoad:
    return GraphLoad(loaded.graph.token_kernels[group], graph)


def switch(loaded: LoadedModel, group: int, graph: StaticGraph) -> GraphLoaded:
    """Load a graph and wait for it."""
    done: SimpleQueue[GraphLoaded] = SimpleQueue()
    xpu = loaded.platform.xpus[Role.PREFILL]
    xpu.load(order(loaded, group, graph), done.put)
    loaded_graph = done.get(timeout=60)
    xpu.install_loaded()
    return loaded_graph


def use(loaded: LoadedModel, *graphs: StaticGraph) -> None:
    for group, graph in enumerate(graphs):
        assert switch(loaded, group, graph).error is None


def groups_of(loaded: LoadedModel) -> int:
    return len(loaded.graph.token_kernels)


def rows_of(loaded: LoadedModel, group: int) -> int:
    """Tokens of the graph that a group has."""
    compiled = loaded.platform.xpus[Role.PREFILL].kernels.compiled(KernelKind.TOKENS, group)
    return int(compiled.inputs[0].get_partial_shape()[0].get_length())


def test_a_chunk_has_the_same_logits_with_every_mixture_of_graphs(switching: LoadedModel) -> None:
    """Equivalence by repetition, bit for bit in f32: sd.npu §3.2."""
    groups = groups_of(switching)
    use(switching, *[StaticGraph.PREFILL] * groups)
    expected = forward(switching, Piece(tokens_of[:STATIC]))
    for changed in range(groups):
        use(switching, *[StaticGraph.DECODE] * changed, *[StaticGraph.PREFILL] * (groups - changed))
        np.testing.assert_array_equal(forward(switching, Piece(tokens_of[:STATIC])), expected)
    use(switching, *[StaticGraph.DECODE] * groups)
    assert [rows_of(switching, group) for group in range(groups)] == [DECODE] * groups
    np.testing.assert_array_equal(forward(switching, Piece(tokens_of[:STATIC])), expected)


@pytest.mark.matrix
@pytest.mark.parametrize("graph", StaticGraph)
@pytest.mark.parametrize("tokens", [1, 3, DECODE])
def test_decodes_and_drafts_take_the_same_tokens_on_the_split_route(
    switching: LoadedModel, tokens: int, graph: StaticGraph
) -> None:
    """Padded to the static shape: the last bits may differ from those of a kernel for so many tokens."""
    use(switching, *[graph] * groups_of(switching))
    forward(switching, Piece(tokens_of[:STATIC], samples=False))
    piece = Piece(tokens_of[STATIC : STATIC + tokens], STATIC)
    fused = forward(switching, piece, avoid=Role.PREFILL)
    switching.graph.decodes_split = True
    try:
        assert begin(switching, piece).kernels[0].roles == (Role.PREFILL,)
        split = forward(switching, piece)
        several = forward(switching, piece, Piece(tokens_of[50:51], 0, range(20, 24)))
    finally:
        switching.graph.decodes_split = False
    assert split.argmax() == fused.argmax()
    np.testing.assert_allclose(split, fused, rtol=0, atol=1e-3 * np.abs(fused).max())
    np.testing.assert_allclose(several[:1], fused, rtol=0, atol=1e-3 * np.abs(fused).max())


def test_padding_has_no_influence(own: LoadedModel) -> None:
    """The rows behind a batch's tokens are left over from others; equal tokens have equal bits."""
    own.graph.decodes_split = True
    use(own, *[StaticGraph.DECODE] * groups_of(own))
    forward(own, Piece(tokens_of[:STATIC], samples=False))
    piece = Piece(tokens_of[STATIC : STATIC + 3], STATIC)
    expected = forward(own, piece)
    for start in (100, 200, 300):
        forward(own, Piece(tokens_of[start : start + DECODE], 0, range(30, 40)))
        np.testing.assert_array_equal(forward(own, piece), expected)


@examples(10)
@given(
    graphs=st.lists(st.sampled_from(StaticGraph), min_size=6, max_size=6),
    changed=st.lists(st.tuples(st.integers(0, 5), st.sampled_from(StaticGraph)), max_size=4),
)
def test_any_mixture_and_any_changes_between_kernels_have_the_same_logits(
    switching: LoadedModel, graphs: list[StaticGraph], changed: list[tuple[int, StaticGraph]]
) -> None:
    expected = forward(switching, Piece(tokens_of[:STATIC]), avoid=Role.PREFILL)
    use(switching, *graphs[: groups_of(switching)])
    context = begin(switching, Piece(tokens_of[:STATIC]))
    for group, graph in changed:
        step(switching, context)
        switch(switching, group % groups_of(switching), graph)
    np.testing.assert_array_equal(finish(switching, context), expected)


@pytest.mark.check
def test_a_replaced_graph_is_freed_although_batches_have_used_it(own: LoadedModel) -> None:
    paused = begin(own, Piece(tokens_of[:STATIC]))
    expected = forward(own, Piece(tokens_of[:STATIC], table=range(16, 32)))
    for _ in range(3):
        step(own, paused)
    kernels = own.platform.xpus[Role.PREFILL].kernels
    freed = weakref.ref(kernels.compiled(KernelKind.TOKENS, 0))
    switch(own, 0, StaticGraph.DECODE)
    gc.collect()
    assert freed() is None
    np.testing.assert_array_equal(finish(own, paused), expected)


def test_a_load_does_not_take_effect_while_a_kernel_runs(own: LoadedModel) -> None:
    xpu = own.platform.xpus[Role.PREFILL]
    done: SimpleQueue[GraphLoaded] = SimpleQueue()
    context = begin(own, Piece(tokens_of[:STATIC]))
    kernel = context.next_kernel
    assert kernel is not None
    xpu._submitted = kernel
    xpu.load(order(own, 0, StaticGraph.DECODE), done.put)
    assert done.get(timeout=60).error is None
    xpu.install_loaded()
    assert rows_of(own, 0) == STATIC
    xpu._submitted = None
    xpu.install_loaded()
    assert rows_of(own, 0) == DECODE


@pytest.mark.check
def test_graphs_are_exported_once(
    own: LoadedModel, tmp_path: Path, tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = sorted(tmp_path.rglob("*.blob"))
    assert len(files) == 2 * groups_of(own)
    assert all(file.stat().st_mode & 0o077 == 0 for file in files)
    monkeypatch.setattr(GraphStore, "write", None)  # it is not called
    again = load_switching(tmp_path, tiny_folder, "qwen2")
    use(again, *[StaticGraph.DECODE] * groups_of(again))
    again.platform.close()


def damage(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(bytes(content))


@pytest.mark.check
@pytest.mark.parametrize(
    "spoil",
    [damage, Path.unlink, lambda file: file.write_bytes(b""), lambda file: file.write_bytes(b"x")],
)
def test_a_load_that_fails_leaves_the_former_graph(
    own: LoadedModel, tmp_path: Path, tiny_folder: Path, spoil: Callable[[Path], None]
) -> None:
    expected = forward(own, Piece(tokens_of[:STATIC]))
    (file,) = tmp_path.rglob("1-decode.blob")
    spoil(file)
    error = switch(own, 1, StaticGraph.DECODE).error
    assert isinstance(error, GraphLoadError)
    assert error.group == 1
    assert "npu_decoding=False" in str(error)
    assert rows_of(own, 1) == STATIC
    np.testing.assert_array_equal(forward(own, Piece(tokens_of[:STATIC])), expected)
    assert not file.exists()  # so that opening the model writes it again
    again = load_switching(tmp_path, tiny_folder, "qwen2")
    assert switch(again, 1, StaticGraph.DECODE).error is None
    again.platform.close()


def test_a_graph_that_openvino_does_not_import_fails_with_its_message(
    own: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> ov.CompiledModel:
        raise RuntimeError("Exception from src/core.cpp:1:\nThe blob is of another version")

    monkeypatch.setattr(own.platform.xpus[Role.PREFILL].kernels.compiler, "load", refuse, raising=False)
    error = switch(own, 0, StaticGraph.DECODE).error
    assert error is not None
    assert "The blob is of another version." in str(error)


def test_closing_ends_the_loader_without_a_report(own: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    reading, go_on = threading.Event(), threading.Event()
    read = GraphStore.read

    def slow(store: GraphStore, load: GraphLoad) -> ov.CompiledModel:
        reading.set()
        go_on.wait(30)
        return read(store, load)

    monkeypatch.setattr(GraphStore, "read", slow)
    done: SimpleQueue[GraphLoaded] = SimpleQueue()
    own.platform.xpus[Role.PREFILL].load(order(own, 0, StaticGraph.DECODE), done.put)
    reading.wait(30)
    closing = threading.Thread(target=own.platform.close)
    closing.start()
    loader = own.platform.xpus[Role.PREFILL]._loader
    assert loader is not None
    assert loader._closed.wait(30)
    go_on.set()
    closing.join(30)
    assert done.empty()
    assert loader._thread is not None
    assert not loader._thread.is_alive()


def test_a_rebuilt_xpu_has_its_graphs_for_prompt_chunks(own: LoadedModel) -> None:
    expected = forward(own, Piece(tokens_of[:STATIC]))
    use(own, *[StaticGraph.DECODE] * groups_of(own))
    own.platform.xpus[Role.PREFILL].rebuild()
    assert [rows_of(own, group) for group in range(groups_of(own))] == [STATIC] * groups_of(own)
    np.testing.assert_array_equal(forward(own, Piece(tokens_of[:STATIC])), expected)
