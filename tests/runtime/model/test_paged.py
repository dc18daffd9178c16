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
from agentrt.runtime.model.directory import ModelDirectory
from agentrt.runtime.model.read_graph import read_paged_graph
from agentrt.runtime.xpu.loading import LoadedModel
from tests.hypothesis_profiles import first_of
from tests.runtime.tiny import Piece, forward, uncut


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
    plain = layers * 2 * heads * 32 * width
    if precision == "u8":  # a scale and a zero point, float32 each, per row of a block
        assert plain < layout.block_bytes < 2 * plain
    else:
        assert layout.block_bytes == plain * {"f32": 4, "f16": 2}[precision]
    for cache in layout.caches:
        tensor = ov.Tensor(cache.element_type, ov.Shape([3, *cache.block_shape]))
        assert tensor.byte_size == 3 * cache.block_bytes


@pytest.fixture(scope="module")
def nano(nano_directory: ModelDirectory) -> LoadedModel:
    return uncut(nano_directory)


def test_logits_of_exactly_the_sampled_rows(nano: LoadedModel) -> None:
    prompt = list(range(20, 70))
    whole, short = forward(nano, Piece(prompt)), forward(nano, Piece(prompt[:7]))
    assert whole.shape == (1, 2048)
    assert forward(nano, Piece(prompt, samples=False)).shape == (0, 2048)
    both = forward(nano, Piece(prompt), Piece(prompt[:7], table=[20]))
    np.testing.assert_array_equal(both, np.concatenate([whole, short]))


def test_each_sequence_reads_its_own_blocks(nano: LoadedModel) -> None:
    one, other = list(range(300, 321)), list(range(500, 521))

    def begin(prompt: list[int], block: int) -> None:
        forward(nano, Piece(prompt[:20], table=[block]))

    def end(prompt: list[int], block: int) -> np.ndarray[Any, Any]:
        return forward(nano, Piece(prompt[20:], 20, [block]))

    alone = []
    for prompt in (one, other):
        begin(prompt, 7)
        alone.append(end(prompt, 7))
    begin(one, 3)
    begin(other, 5)
    np.testing.assert_array_equal([end(one, 3), end(other, 5)], alone)


def test_node_names_do_not_depend_on_the_load(nano_directory: ModelDirectory) -> None:
    def names() -> list[str]:
        return [node.get_friendly_name() for node in read_paged_graph(nano_directory).get_ordered_ops()]

    assert names() == names()
    assert len(set(names())) == len(names())


def saved(model: ov.Model, path: Path) -> ModelDirectory:
    ov.save_model(model, path / "openvino_model.xml")
    return ModelDirectory(path, "other", 2048, frozenset({2}))


def test_nodes_of_a_file_may_share_their_names(nano_directory: ModelDirectory, tmp_path: Path) -> None:
    # Names in a file are generated; those of nodes that are added when it is read can be the same.
    def kinds(directory: ModelDirectory) -> list[str]:
        return [node.get_type_name() for node in read_paged_graph(directory).get_ordered_ops()]

    model = ov.Core().read_model(nano_directory.graph)
    for node in model.get_ordered_ops():
        if node.get_type_name() == "Reshape":
            node.set_friendly_name("Reshape_1")
    assert kinds(saved(model, tmp_path)) == kinds(nano_directory)


def test_a_model_without_attention_is_refused_by_its_path(tmp_path: Path) -> None:
    folder = tmp_path / "{model} {0}"
    folder.mkdir()
    ids = opset.parameter([-1, -1], ov.Type.i64, name="input_ids")
    ids.output(0).set_names({"input_ids"})
    table = opset.constant(np.ones((8, 4), np.float32))
    embedded = opset.gather(table, ids, opset.constant(0))
    directory = saved(ov.Model([embedded], [ids], "bag"), folder)
    with pytest.raises(ModelFormatError, match=r"\{model\} \{0\}.* paged attention.*generation-with-past"):
        read_paged_graph(directory)


def test_a_damaged_graph_is_refused(tmp_path: Path) -> None:
    (tmp_path / "openvino_model.xml").write_text("<net>nonsense</net>")
    (tmp_path / "openvino_model.bin").write_bytes(b"")
    with pytest.raises(ModelFormatError, match=r"cannot read .*openvino_model\.xml"):
        read_paged_graph(ModelDirectory(tmp_path, "x", 8, frozenset()))


@pytest.mark.parametrize(
    "properties", [{"KV_CACHE_PRECISION": "f64"}, {"INFERENCE_PRECISION_HINT": "nonsense"}]
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
