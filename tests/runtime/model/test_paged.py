from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import openvino.opset15 as opset
import pytest

from agentrt.errors import ConfigurationError, ModelFormatError
from agentrt.priority import Priority
from agentrt.runtime.heg.kernel import BatchContext, Role
from agentrt.runtime.model.directory import ModelDirectory
from agentrt.runtime.model.paged import read_paged_graph
from agentrt.runtime.scheduler.batch import ScheduledChunk, inputs_of
from agentrt.runtime.scheduler.sequence import Sequence
from agentrt.runtime.xpu.kv_arena import KVArena
from agentrt.runtime.xpu.loading import LoadedModel
from tests.hypothesis_profiles import first_of


@pytest.mark.parametrize("precision", first_of(["u8", "f32", "f16"]))
def test_block_geometry_is_that_of_the_compiled_model(
    load: Callable[..., LoadedModel], precision: str
) -> None:
    loaded = load(KV_CACHE_PRECISION=precision)
    layout = loaded.layout
    assert loaded.vocabulary_size == 2048
    assert layout.block_tokens == 32  # OpenVINO chooses it on CPU
    layers = len(layout.caches) // 2
    heads, _, width = layout.caches[0].block_shape
    assert len(layout.caches) == 2 * layers
    if precision == "u8":  # a scale and a zero point, float32 each, per row of a block
        assert layout.block_bytes < layers * 2 * heads * 32 * width * 2
        assert layout.block_bytes > layers * 2 * heads * 32 * width
    else:
        assert layout.block_bytes == layers * 2 * heads * 32 * width * {"f32": 4, "f16": 2}[precision]
    for cache in layout.caches:
        assert (
            ov.Tensor(cache.element_type, ov.Shape([3, *cache.block_shape])).byte_size
            == 3 * cache.block_bytes
        )


class Forward:
    """Runs forward passes without a scheduler."""

    def __init__(self, loaded: LoadedModel) -> None:
        self._loaded = loaded
        KVArena(loaded.layout, loaded.platform, 2**22)

    def run(self, chunks: list[ScheduledChunk]) -> np.ndarray[Any, Any]:
        inputs = inputs_of(chunks)
        context = BatchContext(0, inputs, inputs.shape, self._loaded.graph.kernels_for(inputs.shape))
        while (kernel := context.next_kernel) is not None:
            done = self._loaded.platform.xpus[Role.DECODE].run(kernel, context, 30)
            assert done is not None
            assert done.error is None
            context.position += 1
        assert context.logits is not None
        logits = context.logits.copy()
        self._loaded.platform.release(context)
        return logits


def test_logits_of_exactly_the_sampled_rows(load: Callable[..., LoadedModel]) -> None:
    forward = Forward(load())
    prompt = list(range(20, 70))

    def chunk(length: int, samples: bool) -> ScheduledChunk:
        return ScheduledChunk(Sequence(0, Priority.REACTIVE, prompt, blocks=[1, 0]), length, samples)

    whole = forward.run([chunk(50, True)])
    assert whole.shape == (1, 2048)
    assert forward.run([chunk(50, False)]).shape == (0, 2048)
    short = forward.run([chunk(7, True)])
    other = ScheduledChunk(Sequence(1, Priority.REACTIVE, prompt[:7], blocks=[5]), 7, True)
    both = forward.run([chunk(50, True), other])
    np.testing.assert_array_equal(both, np.concatenate([whole, short]))


def test_each_sequence_reads_its_own_blocks(load: Callable[..., LoadedModel]) -> None:
    forward = Forward(load())

    def last_logits(prompt: list[int], blocks: list[int], computed: int = 0) -> np.ndarray[Any, Any]:
        sequence = Sequence(0, Priority.REACTIVE, prompt, computed_tokens=computed, blocks=blocks)
        return forward.run([ScheduledChunk(sequence, len(prompt) - computed, True)])

    one, other = list(range(300, 321)), list(range(500, 521))
    alone = []
    for prompt in (one, other):
        last_logits(prompt[:20], [7])
        alone.append(last_logits(prompt, [7], computed=20))
    last_logits(one[:20], [3])
    last_logits(other[:20], [5])
    np.testing.assert_array_equal(last_logits(one, [3], computed=20), alone[0])
    np.testing.assert_array_equal(last_logits(other, [5], computed=20), alone[1])


def test_node_names_do_not_depend_on_the_load(nano_directory: ModelDirectory) -> None:
    def names() -> list[str]:
        return [node.get_friendly_name() for node in read_paged_graph(nano_directory).get_ordered_ops()]

    assert names() == names()
    assert len(set(names())) == len(names())


def test_nodes_of_a_file_may_share_their_names(nano_directory: ModelDirectory, tmp_path: Path) -> None:
    # Names in a file are generated; those of nodes that are added when it is read can be the same.
    def kinds(directory: ModelDirectory) -> list[str]:
        return [node.get_type_name() for node in read_paged_graph(directory).get_ordered_ops()]

    model = ov.Core().read_model(nano_directory.graph)
    for node in model.get_ordered_ops():
        if node.get_type_name() == "Reshape":
            node.set_friendly_name("Reshape_1")
    assert kinds(_save(model, tmp_path, nano_directory)) == kinds(nano_directory)


def _save(model: ov.Model, path: Path, nano: ModelDirectory) -> ModelDirectory:
    ov.save_model(model, path / "openvino_model.xml")
    return ModelDirectory(path, "other", 2048, frozenset({2}))


def test_a_model_without_attention_is_refused(tmp_path: Path, nano_directory: ModelDirectory) -> None:
    ids = opset.parameter([-1, -1], ov.Type.i64, name="input_ids")
    ids.output(0).set_names({"input_ids"})
    table = opset.constant(np.ones((8, 4), np.float32))
    embedded = opset.gather(table, ids, opset.constant(0))
    directory = _save(ov.Model([embedded], [ids], "bag"), tmp_path, nano_directory)
    with pytest.raises(ModelFormatError, match=r"paged attention.*text-generation-with-past"):
        read_paged_graph(directory)


def test_a_path_with_braces_is_named_in_the_error(tmp_path: Path, nano_directory: ModelDirectory) -> None:
    folder = tmp_path / "{model} {0}"
    folder.mkdir()
    ids = opset.parameter([-1, -1], ov.Type.i64, name="input_ids")
    ids.output(0).set_names({"input_ids"})
    table = opset.constant(np.ones((8, 4), np.float32))
    embedded = opset.gather(table, ids, opset.constant(0))
    directory = _save(ov.Model([embedded], [ids], "bag"), folder, nano_directory)
    with pytest.raises(ModelFormatError, match=r"\{model\} \{0\}.* paged attention"):
        read_paged_graph(directory)


def test_a_damaged_graph_is_refused(tmp_path: Path, nano_directory: ModelDirectory) -> None:
    (tmp_path / "openvino_model.xml").write_text("<net>nonsense</net>")
    (tmp_path / "openvino_model.bin").write_bytes(b"")
    with pytest.raises(ModelFormatError, match=r"cannot read .*openvino_model\.xml"):
        read_paged_graph(ModelDirectory(tmp_path, "x", 8, frozenset()))


@pytest.mark.parametrize(
    "properties", [{"KV_CACHE_PRECISION": "bf16"}, {"INFERENCE_PRECISION_HINT": "nonsense"}]
)
def test_properties_that_the_device_refuses_are_an_error(
    load: Callable[..., LoadedModel], properties: dict[str, Any]
) -> None:
    with pytest.raises(ConfigurationError, match="None"):
        load(**properties)


class InterruptedPath(type(Path())):  # type: ignore[misc]
    """A path at which Ctrl-C comes when it is passed to native code."""

    def __fspath__(self) -> str:
        raise KeyboardInterrupt


def test_an_interrupt_while_the_path_is_passed_is_no_damaged_graph(nano_directory: ModelDirectory) -> None:
    directory = replace(nano_directory, path=InterruptedPath(nano_directory.path))
    assert read_paged_graph(directory).inputs
