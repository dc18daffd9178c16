"""Passes over graphs: matmuls fused and multiplied, sampled rows, groups of dynamic quantisation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import openvino as ov
import openvino.opset15 as opset
import pytest
from numpy.typing import NDArray
from openvino._offline_transformations import paged_attention_transformation

from agentrt.runtime.model.directory import ModelDirectory
from agentrt.runtime.model.dynamic_quantization import quantization_properties
from agentrt.runtime.model.fuse_matmuls import fuse_matmuls
from agentrt.runtime.model.gather_sampled_rows import SAMPLED_ROWS, gather_sampled_rows
from agentrt.runtime.model.openvino_core import openvino_core
from agentrt.runtime.model.paged import multiply_outer_products
from agentrt.runtime.model.read_graph import read_paged_graph
from agentrt.runtime.model.share_constants import share_constants

WIDTH = 64


def count(model: ov.Model, kind: str) -> int:
    return sum(node.get_type_name() == kind for node in model.get_ops())


def outputs(of: ov.Model, given: NDArray[np.float32]) -> list[NDArray[np.float32]]:
    compiled = openvino_core().compile_model(of, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return [np.array(value) for value in compiled([given] * len(of.inputs)).values()]


def compressed(rng: np.random.Generator, rows: int, kind: ov.Type = ov.Type.u8) -> ov.Node:
    """Weights ``[rows, WIDTH]`` as integers, with one scale per row and one zero point for all."""
    most = 15 if kind == ov.Type.u4 else 255
    whole = opset.constant(rng.integers(0, most, (rows, WIDTH)).astype(np.uint8), kind)
    zero = opset.constant(np.array([[most // 2]], np.float32))
    scale = opset.constant(rng.random((rows, 1), np.float32) * 0.01)
    return opset.multiply(opset.subtract(opset.convert(whole, ov.Type.f32), zero), scale)


def matmuls(
    columns: Sequence[int], *, biased: Sequence[int] = (), kind: ov.Type = ov.Type.u8, inputs: int = 1
) -> ov.Model:
    """Matmuls of the same activations (or of several, in turn), those at ``biased`` with a bias."""
    rng = np.random.default_rng(0)
    activations = [opset.parameter([-1, 1, WIDTH], ov.Type.f32, name=f"in{at}") for at in range(inputs)]
    ends = []
    for at, rows in enumerate(columns):
        end = opset.matmul(activations[at % inputs], compressed(rng, rows, kind), False, True)
        if at in biased:
            end = opset.add(end, opset.constant(rng.random((1, 1, rows), np.float32)))
        ends.append(opset.result(end))
    return ov.Model(ends, activations, "matmuls")


@pytest.mark.parametrize(("biased", "additions"), [((0, 1, 2), 1), ((), 0), ((0,), 1)])
def test_matmuls_of_the_same_activations_are_fused_with_equal_results(
    biased: Sequence[int], additions: int
) -> None:
    """And their biases, if all have one."""
    plain, fused = matmuls((64, 16, 16), biased=biased), matmuls((64, 16, 16), biased=biased)
    fuse_matmuls(fused)
    assert (count(plain, "MatMul"), count(fused, "MatMul"), count(fused, "Add")) == (3, 1, additions)
    given = np.random.default_rng(1).standard_normal((5, 1, WIDTH), np.float32)
    for expected, found in zip(outputs(plain, given), outputs(fused, given), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "left",
    [matmuls((4096, 16)), matmuls((64, 16), kind=ov.Type.u4), matmuls((64, 16), inputs=2)],
    ids=["wide", "two numbers in a byte", "other activations"],
)
def test_wide_or_incompatible_matmuls_are_not_fused(left: ov.Model) -> None:
    fuse_matmuls(left)
    assert count(left, "MatMul") == 2


@pytest.mark.parametrize("tokens", [1, 2, 300])
def test_an_outer_product_becomes_a_multiplication_with_equal_bits(tokens: int) -> None:
    def angles() -> ov.Model:
        """``[1, 16, tokens]``: frequencies times positions."""
        frequencies = opset.constant(np.random.default_rng(0).random((1, 16, 1), np.float32))
        positions = opset.parameter([-1, 1, -1], ov.Type.f32)
        return ov.Model([opset.matmul(frequencies, positions, False, False)], [positions])

    plain, multiplied = angles(), angles()
    multiply_outer_products(multiplied)
    assert count(multiplied, "MatMul") == 0
    positions = np.random.default_rng(1).integers(0, 100_000, (1, 1, tokens)).astype(np.float32)
    np.testing.assert_array_equal(outputs(multiplied, positions), outputs(plain, positions))


@pytest.mark.parametrize(
    ("left", "right", "transposed"),
    [([-1, 4, 2], [-1, 2, 3], False), ([-1, 4, -1], [-1, -1, 3], False), ([-1, 4, 1], [-1, 3, 1], True)],
    ids=["sums", "unknown", "transposed"],
)
def test_other_matmuls_are_left(left: list[int], right: list[int], transposed: bool) -> None:
    inputs = [opset.parameter(shape, ov.Type.f32) for shape in (left, right)]
    model = ov.Model([opset.matmul(*inputs, False, transposed)], inputs)
    multiply_outer_products(model)
    assert count(model, "MatMul") == 1


def test_equal_small_constants_become_one_with_equal_results() -> None:
    def scaled() -> ov.Model:
        values = end = opset.parameter([-1, WIDTH], ov.Type.f32)
        for factor in (np.float32(3), np.float32([3]), np.float32(3), np.float32(-3)):
            end = opset.multiply(end, opset.constant(factor))
        for _ in range(2):
            end = opset.add(end, opset.constant(np.ones(WIDTH + 1, np.float32)[:WIDTH]))
            end = opset.matmul(end, opset.constant(np.eye(WIDTH, dtype=np.float32)), False, False)
        return ov.Model([opset.result(end)], [values], "scaled")

    plain, shared = scaled(), scaled()
    share_constants(shared)
    assert (count(plain, "Constant"), count(shared, "Constant")) == (8, 6), "neither other shapes nor weights"
    given = np.random.default_rng(1).standard_normal((5, WIDTH), np.float32)
    np.testing.assert_array_equal(outputs(shared, given), outputs(plain, given))


def test_rotations_are_multiplied_in_f32_where_the_rest_is_in_bf16(nano_directory: ModelDirectory) -> None:
    def is_column(shape: ov.PartialShape) -> bool:
        """Whether a result is ``[…, frequencies, 1]``."""
        return len(shape) == 3 and shape[-1] == 1 and shape[-2].is_static and shape[-2].get_length() > 1

    graph = read_paged_graph(nano_directory)
    products = {
        node.get_friendly_name()
        for node in graph.get_ops()
        if node.get_type_name() == "Multiply" and is_column(node.get_output_partial_shape(0))
    }
    assert products
    compiled = openvino_core().compile_model(graph, "CPU", {"INFERENCE_PRECISION_HINT": "bf16"})
    precisions = {
        node.get_friendly_name(): node.get_rt_info()["runtimePrecision"].astype(str)
        for node in compiled.get_runtime_model().get_ops()
    }
    assert {precisions[name] for name in products} == {"f32"}


@pytest.fixture
def paged(nano_directory: ModelDirectory) -> ov.Model:
    model = openvino_core().read_model(nano_directory.graph)
    paged_attention_transformation(model)
    return model


def rows_of_every_matmul(model: ov.Model) -> list[int]:
    """The number of rows of each matmul after the first, when 3 of 7 tokens are sampled."""
    probe = model.clone()
    probe.reshape({"input_ids": [7], "position_ids": [7], SAMPLED_ROWS: [3]})
    matmuls = [node for node in probe.get_ordered_ops() if node.get_type_name() == "MatMul"]
    return [next(iter(node.output(0).get_shape())) for node in matmuls]


def lay_out_by_tokens(model: ov.Model, target: ov.Input) -> None:
    """Reshape the source of ``target`` by the number of tokens, as some exports do, without effect."""
    ids = next(node for node in model.get_parameters() if "input_ids" in node.output(0).names)
    source = target.get_source_output()
    row = [extent.get_length() for extent in list(source.get_partial_shape())[1:]]
    shape = opset.concat([opset.shape_of(ids), opset.constant(row)], 0)
    target.replace_source_output(opset.reshape(source, shape, False).output(0))
    model.validate_nodes_and_infer_types()


@pytest.mark.parametrize("reshaped", [False, True])
def test_only_sampled_rows_are_computed_after_the_last_attention(paged: ov.Model, reshaped: bool) -> None:
    """Also after a reshape that depends on the tokens."""
    if reshaped:
        nodes = paged.get_ordered_ops()
        last = [node for node in nodes if node.get_type_name() == "PagedAttentionExtension"][-1]
        lay_out_by_tokens(paged, next(iter(last.output(0).get_target_inputs())))
    model = gather_sampled_rows(paged)
    rows = rows_of_every_matmul(model)
    # The output projection, the three matmuls of the MLP and the LM head follow the last attention.
    assert rows[-5:] == [3] * 5
    assert set(rows[1:-5]) == {7}
    assert [list(output.get_partial_shape())[1:] for output in model.outputs] == [[1, 2048]]


def test_rows_are_gathered_in_front_of_the_head_if_nothing_earlier_works(paged: ov.Model) -> None:
    head = [node for node in paged.get_ordered_ops() if node.get_type_name() == "MatMul"][-1]
    lay_out_by_tokens(paged, head.input(0))
    assert rows_of_every_matmul(gather_sampled_rows(paged))[-2:] == [7, 3]


ROWS = 32
EIGHT, FOUR = ov.Type.i8, ov.Type.i4


def products(*matrices: tuple[int, int | None, Any]) -> ov.Model:
    """Products of activations with matrices of so many columns in groups, whose codes have this type."""
    inputs, results = [], []
    for columns, group, type in matrices:
        state = opset.parameter([-1, columns], ov.Type.f32)
        if group is None:
            weights = opset.constant(np.ones((ROWS, columns), np.float32)).output(0)
        else:
            codes = opset.constant(np.ones((ROWS, columns // group, group)), type)
            scales = opset.constant(np.ones((ROWS, columns // group, 1), np.float32))
            scaled = opset.multiply(opset.convert(codes, ov.Type.f32), scales)
            weights = opset.reshape(scaled, opset.constant([ROWS, columns]), False).output(0)
        inputs.append(state)
        results.append(opset.matmul(state, weights, False, True))
    return ov.Model(results, inputs)


@pytest.mark.parametrize(
    ("matrices", "size"),
    [
        ([(896, 128, EIGHT), (4864, 128, EIGHT)], 128),
        ([(512, 512, EIGHT)], 128),
        ([(576, 64, EIGHT), (1536, 128, EIGHT)], 64),
        ([(1536, 128, EIGHT), (1536, 32, FOUR)], None),
        ([(1536, 128, FOUR)], 128),
        ([(192, 192, EIGHT)], None),
        ([(1536, None, None)], None),
        ([(1536, 128, EIGHT), (32, None, None)], 128),
    ],
)
def test_the_largest_group_that_divides_all(
    matrices: list[tuple[int, int | None, Any]], size: int | None
) -> None:
    pieces = [products(*part) for part in (matrices[:1], matrices[1:]) if part]
    expected = {} if size is None else {"DYNAMIC_QUANTIZATION_GROUP_SIZE": size}
    assert quantization_properties(pieces, "CPU", {}) == expected
    assert quantization_properties(pieces, "NPU", {}) == {}, "other devices choose for themselves"
    assert quantization_properties(pieces, "CPU", {"DYNAMIC_QUANTIZATION_GROUP_SIZE": 0}) == {}


def test_weights_that_are_not_transposed_have_no_groups_in_a_row() -> None:
    state = opset.parameter([-1, 1024], ov.Type.f32)
    codes = opset.convert(opset.constant(np.ones((1024, ROWS)), EIGHT), ov.Type.f32)
    weights = opset.multiply(codes, opset.constant(np.ones((1, ROWS), np.float32)))
    product = opset.matmul(state, weights, False, False)
    assert quantization_properties([ov.Model([product], [state])], "CPU", {}) == {}
