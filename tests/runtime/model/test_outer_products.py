from __future__ import annotations

import numpy as np
import openvino as ov
import openvino.opset15 as opset
import pytest

from agentrt.runtime.model.directory import ModelDirectory
from agentrt.runtime.model.openvino_core import openvino_core
from agentrt.runtime.model.paged import multiply_outer_products, read_paged_graph

FREQUENCIES = np.random.default_rng(0).random((1, 16, 1), np.float32)


def angles() -> ov.Model:
    """``[1, 16, tokens]``: frequencies times positions."""
    positions = opset.parameter([-1, 1, -1], ov.Type.f32)
    return ov.Model([opset.matmul(opset.constant(FREQUENCIES), positions, False, False)], [positions])


def kinds(model: ov.Model) -> list[str]:
    return [node.get_type_name() for node in model.get_ops()]


@pytest.mark.parametrize("tokens", [1, 2, 300])
def test_an_outer_product_becomes_a_multiplication_with_equal_bits(tokens: int) -> None:
    plain, multiplied = angles(), angles()
    multiply_outer_products(multiplied)
    assert "MatMul" not in kinds(multiplied)
    positions = np.random.default_rng(1).integers(0, 100_000, (1, 1, tokens)).astype(np.float32)
    exact = {"INFERENCE_PRECISION_HINT": "f32"}
    expected, found = (
        openvino_core().compile_model(each, "CPU", exact)([positions])[0] for each in (plain, multiplied)
    )
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("left", "right", "transposed"),
    [([-1, 4, 2], [-1, 2, 3], False), ([-1, 4, -1], [-1, -1, 3], False), ([-1, 4, 1], [-1, 3, 1], True)],
    ids=["sums", "unknown", "transposed"],
)
def test_other_matmuls_are_left(left: list[int], right: list[int], transposed: bool) -> None:
    inputs = [opset.parameter(shape, ov.Type.f32) for shape in (left, right)]
    model = ov.Model([opset.matmul(*inputs, False, transposed)], inputs)
    multiply_outer_products(model)
    assert "MatMul" in kinds(model)


def test_rotations_are_multiplied_in_f32_where_the_rest_is_in_bf16(nano_directory: ModelDirectory) -> None:
    graph = read_paged_graph(nano_directory)
    products = {
        node.get_friendly_name()
        for node in graph.get_ops()
        if node.get_type_name() == "Multiply" and _is_column(node.get_output_partial_shape(0))
    }
    assert products
    compiled = openvino_core().compile_model(graph, "CPU", {"INFERENCE_PRECISION_HINT": "bf16"})
    precisions = {
        node.get_friendly_name(): node.get_rt_info()["runtimePrecision"].astype(str)
        for node in compiled.get_runtime_model().get_ops()
    }
    assert {precisions[name] for name in products} == {"f32"}


def _is_column(shape: ov.PartialShape) -> bool:
    """Whether a result is ``[…, frequencies, 1]``."""
    return len(shape) == 3 and shape[-1] == 1 and shape[-2].is_static and shape[-2].get_length() > 1
