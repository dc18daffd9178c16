"""Every quantisation against the ``gguf`` package: unpacked, and multiplied with by OpenVINO."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import openvino as ov
import openvino.opset15 as opset
import pytest
from gguf.constants import GGML_QUANT_SIZES
from gguf.constants import GGMLQuantizationType as Type
from gguf.quants import dequantize
from numpy.typing import NDArray

from agentrt.runtime.gguf.file_format import Tensor
from agentrt.runtime.gguf.graph import project
from agentrt.runtime.gguf.quantisation import QUANTISATIONS, unpack
from agentrt.runtime.gguf.weights_file import WeightsFile, write_graph

ROWS, COLUMNS = 24, 512
PLAIN = (Type.F32, Type.F16, Type.BF16)
ROUNDING = 3e-7
"""Of float32: code * scale + offset rounds twice."""


def raw(type: Type, rows: int = ROWS) -> NDArray[np.uint8]:
    """Return random blocks of moderate, finite weights."""
    random = np.random.default_rng(int(type))
    elements, size = GGML_QUANT_SIZES[type]
    found = random.integers(0, 256, (rows * COLUMNS // elements * 4, size), np.uint8)
    with np.errstate(all="ignore"):
        values = dequantize(found, type)
    largest = np.abs(values).max(axis=1)
    kept = found[np.isfinite(largest) & (largest < 1e3) & (largest > 1e-3)]
    return np.resize(kept, (rows * COLUMNS // elements, size)).reshape(rows, -1)


@pytest.mark.parametrize("type", QUANTISATIONS, ids=lambda type: type.name)
def test_codes_scales_and_offsets_are_the_weights(type: Type) -> None:
    quantisation, blocks = QUANTISATIONS[type], raw(type)
    found = unpack(type, blocks)
    shape = (ROWS, COLUMNS // quantisation.group, quantisation.group)
    values = found.codes.reshape(shape) * found.scales[..., None]
    assert (found.offsets is not None) == quantisation.has_offsets
    if found.offsets is not None:
        values += found.offsets[..., None]
    expected = dequantize(blocks, type).reshape(shape)
    error = np.abs(values - expected) / np.abs(expected).max(axis=2, keepdims=True).clip(1e-30)
    assert error.max() <= (ROUNDING if quantisation.has_offsets else 0)
    limit = 2 ** (quantisation.bits - 1)
    assert -limit <= found.codes.min() <= found.codes.max() < limit
    if quantisation.exact_half_scales:
        np.testing.assert_array_equal(found.scales, found.scales.astype(np.float16))


@pytest.mark.parametrize("type", [*PLAIN, *QUANTISATIONS], ids=lambda type: type.name)
@pytest.mark.parametrize("reorder", [False, True])
def test_openvino_multiplies_with_the_same_weights(type: Type, reorder: bool, tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    blocks = raw(type) if type in QUANTISATIONS else plain(type, random)
    expected = dequantize(blocks, type).reshape(ROWS, COLUMNS)
    order = random.permutation(ROWS) if reorder else None
    file = tmp_path / "data"
    file.write_bytes(b"before" + blocks.tobytes())
    tensor = Tensor("x", file, (ROWS, COLUMNS), type, 6, blocks.nbytes)
    graph = tmp_path / "graph.xml"
    with graph.with_suffix(".bin").open("w+b") as stream:
        weights = WeightsFile(stream)
        state = opset.parameter([-1, -1, COLUMNS], ov.Type.f32)
        result = project(state.output(0), weights.matrix(tensor, order))
        write_graph(ov.Model([opset.result(result)], [state, *weights.parameters]), graph, stream)
    exact = {"INFERENCE_PRECISION_HINT": "f32", "DYNAMIC_QUANTIZATION_GROUP_SIZE": 0}
    compiled = ov.Core().compile_model(graph, "CPU", exact)
    activations = random.standard_normal((1, 3, COLUMNS)).astype(np.float32)
    wanted = activations.astype(np.float64) @ (expected if order is None else expected[order]).T
    found = compiled([activations])[0]
    assert np.abs(found - wanted).max() <= 1e-5 * np.abs(wanted).max()


def plain(type: Type, random: np.random.Generator) -> NDArray[np.uint8]:
    values = random.standard_normal((ROWS, COLUMNS)).astype(np.float32)
    if type == Type.F32:
        return values.view(np.uint8)
    if type == Type.F16:
        return values.astype(np.float16).view(np.uint8)
    return (values.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)


def test_all_types_that_files_have_are_known() -> None:
    # Q8_1 and Q8_K are of intermediate results, I8 to I64 of indices; the gguf package cannot read Q1_0.
    others = {Type.Q1_0, Type.Q8_1, Type.Q8_K, Type.I8, Type.I16, Type.I32, Type.I64, Type.F64, *PLAIN}
    assert {*QUANTISATIONS} >= {*Type} - others
