"""Every quantisation against the ``gguf`` package: unpacked, and multiplied with by OpenVINO."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import openvino as ov
import openvino.opset15 as opset
import pytest
from gguf.constants import GGML_QUANT_SIZES
from gguf.constants import GGMLQuantizationType as Type
from gguf.quants import dequantize, quantize
from numpy.typing import NDArray

from agentrt.runtime.model.gguf import conversion
from agentrt.runtime.model.gguf.file_format import Tensor
from agentrt.runtime.model.gguf.graph import project
from agentrt.runtime.model.gguf.quantisation import (
    FOUR_BIT_GROUP,
    FOUR_BITS,
    QUANTISED,
    eight_bit_group,
    to_eight_bits,
    unpack_four_bits,
)
from agentrt.runtime.model.gguf.weights_file import Rows, WeightsFile, write_graph

ROWS, COLUMNS = 24, 512
ROUNDING = 3e-7
"""Of float32: code * scale + offset rounds twice."""
PLAIN = (Type.F32, Type.F16, Type.BF16)


def random_blocks(type: Type, rows: int, columns: int, seed: int = 0) -> NDArray[np.uint8]:
    """Return random moderate weights of ``type`` as ``[rows, bytes of a row]``."""
    random = np.random.default_rng([int(type), seed])
    if type in PLAIN:
        return quantize(random.standard_normal((rows, columns)).astype(np.float32), type).view(np.uint8)
    elements, size = GGML_QUANT_SIZES[type]
    found = random.integers(0, 256, (rows * columns // elements * 4, size), np.uint8)
    with np.errstate(all="ignore"):
        values = dequantize(found, type)
    largest = np.abs(values).max(axis=1)
    kept = found[np.isfinite(largest) & (largest < 1e3) & (largest > 1e-3)]
    return np.resize(kept, (rows * columns // elements, size)).reshape(rows, -1)


@pytest.mark.parametrize("type", FOUR_BITS, ids=lambda type: type.name)
def test_four_bit_codes_scales_and_offsets_are_the_weights(type: Type) -> None:
    blocks = random_blocks(type, ROWS, COLUMNS)
    found = unpack_four_bits(type, blocks)
    shape = (ROWS, COLUMNS // FOUR_BIT_GROUP, FOUR_BIT_GROUP)
    values = found.codes.reshape(shape) * found.scales[..., None]
    assert (found.offsets is not None) == FOUR_BITS[type].has_offsets
    if found.offsets is not None:
        values += found.offsets[..., None]
    expected = dequantize(blocks, type).reshape(shape)
    error = np.abs(values - expected) / np.abs(expected).max(axis=2, keepdims=True).clip(1e-30)
    assert error.max() <= (ROUNDING if FOUR_BITS[type].has_offsets else 0)
    assert -8 <= found.codes.min() <= found.codes.max() < 8


@pytest.mark.parametrize(("columns", "group"), [(512, 128), (576, 64), (96, 32)])
def test_eight_bits_are_rounded_by_half_a_step_of_their_group(columns: int, group: int) -> None:
    values = np.random.default_rng(2).standard_normal((ROWS, columns)).astype(np.float32)
    values[0] = 0
    values[:, 5] *= 100  # an outlier coarsens its own group only
    found = to_eight_bits(values)
    assert eight_bit_group(columns) == group
    shape = (ROWS, columns // group, group)
    assert found.scales.shape == shape[:2]
    assert found.offsets is None
    off = np.abs(found.codes.reshape(shape) * found.scales[..., None] - values.reshape(shape))
    assert np.all(off <= np.abs(values.reshape(shape)).max(axis=2, keepdims=True) / 253)
    assert -127 <= found.codes.min() <= found.codes.max() <= 127


@pytest.mark.matrix
@pytest.mark.parametrize("type", [*PLAIN, *sorted(QUANTISED)], ids=lambda type: type.name)
@pytest.mark.parametrize("keep_four_bits", [False, True])
@pytest.mark.parametrize("reorder", [False, True])
def test_openvino_multiplies_with_the_same_weights(
    type: Type, keep_four_bits: bool, reorder: bool, tmp_path: Path
) -> None:
    random = np.random.default_rng(1)
    blocks = random_blocks(type, ROWS, COLUMNS)
    expected = dequantize(blocks, type).reshape(ROWS, COLUMNS)
    order = random.permutation(ROWS) if reorder else None
    file = tmp_path / "data"
    file.write_bytes(b"before" + blocks.tobytes())
    tensor = Tensor("x", file, (ROWS, COLUMNS), type, 6, blocks.nbytes)
    graph = tmp_path / "graph.xml"
    with graph.with_suffix(".bin").open("w+b") as stream:
        weights = WeightsFile(stream, keep_four_bits=keep_four_bits)
        state = opset.parameter([-1, -1, COLUMNS], ov.Type.f32)
        result = project(state.output(0), weights.matrix(Rows(tensor, order), Rows(tensor)))
        write_graph(ov.Model([opset.result(result)], [state, *weights.parameters]), graph, stream)
    stored = {str(node.get_element_type()) for node in weights.parameters}
    assert ("<Type: 'int4_t'>" in stored) == (keep_four_bits and type in FOUR_BITS)
    exact = {"INFERENCE_PRECISION_HINT": "f32", "DYNAMIC_QUANTIZATION_GROUP_SIZE": 0}
    compiled = ov.Core().compile_model(graph, "CPU", exact)
    activations = random.standard_normal((1, 3, COLUMNS)).astype(np.float32)
    expected = np.concatenate([expected if order is None else expected[order], expected])
    wanted = activations.astype(np.float64) @ expected.T
    off = 1e-5 * np.abs(wanted).max() * np.ones_like(wanted)
    if type in QUANTISED and not (keep_four_bits and type in FOUR_BITS):
        largest = np.abs(expected.reshape(2 * ROWS, -1, 128)).max(axis=2).repeat(128, axis=1)
        off += np.abs(activations) @ (largest / 254).T
    assert np.all(np.abs(compiled([activations])[0] - wanted) <= off)


def test_all_types_that_files_have_are_known() -> None:
    # Q8_1 and Q8_K are of intermediate results, I8 to I64 of indices; the gguf package cannot read Q1_0.
    others = {Type.Q1_0, Type.Q8_1, Type.Q8_K, Type.I8, Type.I16, Type.I32, Type.I64, Type.F64, *PLAIN}
    assert {*Type} - others <= QUANTISED


@pytest.mark.parametrize(
    ("type", "gib", "memory", "kept"),
    [
        (Type.Q4_K, 1, 16, False),
        (Type.Q4_K, 2, 16, False),
        (Type.Q4_K, 3, 16, True),
        (Type.Q8_0, 3, 16, False),
        (Type.Q4_0, 2**10, None, False),  # the memory is not known
    ],
)
def test_four_bits_stay_where_8_would_take_more_than_an_eighth_of_the_memory(
    type: Type, gib: int, memory: int | None, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversion, "_memory", lambda: None if memory is None else memory * 2**30)

    def tensor(type: Type, weights: int) -> Tensor:
        return Tensor("x", Path("x"), (weights // 4096, 4096), type, 0, 0)

    half = tensor(type, gib * 2**29)
    assert conversion.keeps_four_bits([half, tensor(Type.F32, 2**34), half]) == kept
