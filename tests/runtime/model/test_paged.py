from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import openvino.opset15 as opset
import pytest

from agentrt.errors import ConfigurationError, ModelFormatError
from agentrt.priority import Priority
from agentrt.runtime.context import KVArena
from agentrt.runtime.forward import ForwardPass
from agentrt.runtime.model import ModelDirectory, compile_paged_model
from agentrt.runtime.model.paged import read_paged_graph
from agentrt.runtime.scheduler import Sequence, Slice

EXACT = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32", "INFERENCE_NUM_THREADS": 1}


@pytest.mark.parametrize("precision", ["f32", "f16", "u8"])
def test_block_geometry_is_that_of_the_compiled_model(nano_directory: ModelDirectory, precision: str) -> None:
    model = compile_paged_model(nano_directory, "CPU", EXACT | {"KV_CACHE_PRECISION": precision})
    assert model.vocabulary_size == 2048
    assert model.block_tokens == 32  # OpenVINO's choice on CPU
    layers = len(model.caches) // 2
    heads, _, width = model.caches[0].block_shape
    assert len(model.caches) == 2 * layers
    if precision == "u8":  # a scale and a zero point, float32 each, for every row of a block
        assert model.block_bytes < layers * 2 * heads * 32 * width * 2
        assert model.block_bytes > layers * 2 * heads * 32 * width
    else:
        assert model.block_bytes == layers * 2 * heads * 32 * width * {"f32": 4, "f16": 2}[precision]
    for cache in model.caches:
        assert (
            ov.Tensor(cache.element_type, ov.Shape([3, *cache.block_shape])).byte_size
            == 3 * cache.block_bytes
        )


def test_logits_of_exactly_the_sampled_rows(nano_directory: ModelDirectory) -> None:
    model = compile_paged_model(nano_directory, "CPU", EXACT)
    forward = ForwardPass(model, KVArena(model, 2**22))
    prompt = list(range(20, 70))

    def slice_of(length: int, samples: bool) -> Slice:
        return Slice(Sequence(0, Priority.REACTIVE, prompt, blocks=[1, 0]), length, samples)

    whole = forward.run([slice_of(50, True)]).copy()
    assert whole.shape == (1, 2048)
    assert forward.run([slice_of(50, False)]).shape == (0, 2048)
    short = forward.run([slice_of(7, True)]).copy()
    other = Slice(Sequence(1, Priority.REACTIVE, prompt[:7], blocks=[5]), 7, True)
    both = forward.run([slice_of(50, True), other])
    np.testing.assert_array_equal(both, np.concatenate([whole, short]))


def test_each_sequence_reads_its_own_blocks(nano_directory: ModelDirectory) -> None:
    model = compile_paged_model(nano_directory, "CPU", EXACT)
    forward = ForwardPass(model, KVArena(model, 2**22))

    def last_logits(prompt: list[int], blocks: list[int], computed: int = 0) -> np.ndarray[Any, Any]:
        sequence = Sequence(0, Priority.REACTIVE, prompt, computed=computed, blocks=blocks)
        return forward.run([Slice(sequence, len(prompt) - computed, True)]).copy()

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
        compile_paged_model(directory, "CPU", EXACT)


def test_a_damaged_graph_is_refused(tmp_path: Path, nano_directory: ModelDirectory) -> None:
    (tmp_path / "openvino_model.xml").write_text("<net>nonsense</net>")
    (tmp_path / "openvino_model.bin").write_bytes(b"")
    with pytest.raises(ModelFormatError, match=r"cannot read .*openvino_model\.xml"):
        compile_paged_model(ModelDirectory(tmp_path, "x", 8, frozenset()), "CPU", EXACT)


@pytest.mark.parametrize(
    "properties", [{"KV_CACHE_PRECISION": "bf16"}, {"INFERENCE_PRECISION_HINT": "nonsense"}]
)
def test_properties_the_device_refuses(nano_directory: ModelDirectory, properties: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="None"):
        compile_paged_model(nano_directory, "CPU", EXACT | properties)
