"""Every quantisation against the ``gguf`` package: unpacked, and multiplied with by OpenVINO."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import openvino as ov
import openvino.opset15 as opset
import pytest
from gguf.constants import GGMLQuantizationType as Type
from gguf.quants import dequantize

from agentrt.bench.models.conversions import PLAIN, random_blocks
from agentrt.runtime.gguf.file_format import Tensor
from agentrt.runtime.gguf.graph import project
from agentrt.runtime.gguf.quantisation import QUANTISATIONS, unpack
from agentrt.runtime.gguf.weights_file import WeightsFile, write_graph

ROWS, COLUMNS = 24, 512
ROUNDING = 3e-7
"""Of float32: code * scale + offset rounds twice."""


@pytest.mark.parametrize("type", QUANTISATIONS, ids=lambda type: type.name)
def test_codes_scales_and_offsets_are_the_weights(type: Type) -> None:
    quantisation, blocks = QUANTISATIONS[type], random_blocks(type, ROWS, COLUMNS)
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


@pytest.mark.parametrize("type", [*PLAIN, *QUANTISATIONS], ids=lambda type: type.name)
@pytest.mark.parametrize("reorder", [False, True])
def test_openvino_multiplies_with_the_same_weights(type: Type, reorder: bool, tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    blocks = random_blocks(type, ROWS, COLUMNS)
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


def test_all_types_that_files_have_are_known() -> None:
    # Q8_1 and Q8_K are of intermediate results, I8 to I64 of indices; the gguf package cannot read Q1_0.
    others = {Type.Q1_0, Type.Q8_1, Type.Q8_K, Type.I8, Type.I16, Type.I32, Type.I64, Type.F64, *PLAIN}
    assert {*QUANTISATIONS} >= {*Type} - others
