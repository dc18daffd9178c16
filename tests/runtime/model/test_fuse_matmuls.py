from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import openvino as ov
import openvino.opset15 as opset
import pytest
from numpy.typing import NDArray

from agentrt.runtime.model.fuse_matmuls import fuse_matmuls
from agentrt.runtime.model.openvino_core import openvino_core

WIDTH = 64


def compressed(rng: np.random.Generator, rows: int, kind: ov.Type = ov.Type.u8) -> ov.Node:
    """Weights ``[rows, WIDTH]`` as integers, with one scale per row and one zero point for all."""
    most = 15 if kind == ov.Type.u4 else 255
    whole = opset.constant(rng.integers(0, most, (rows, WIDTH)).astype(np.uint8), kind)
    zero = opset.constant(np.array([[most // 2]], np.float32))
    scale = opset.constant(rng.random((rows, 1), np.float32) * 0.01)
    return opset.multiply(opset.subtract(opset.convert(whole, ov.Type.f32), zero), scale)


def model(
    columns: Sequence[int], *, biased: bool = True, kind: ov.Type = ov.Type.u8, inputs: int = 1
) -> ov.Model:
    """Matmuls of the same activations (or of several, in turn), each with or without a bias."""
    rng = np.random.default_rng(0)
    activations = [opset.parameter([-1, 1, WIDTH], ov.Type.f32, name=f"in{at}") for at in range(inputs)]
    ends = []
    for at, rows in enumerate(columns):
        end = opset.matmul(activations[at % inputs], compressed(rng, rows, kind), False, True)
        if biased:
            end = opset.add(end, opset.constant(rng.random((1, 1, rows), np.float32)))
        ends.append(opset.result(end))
    return ov.Model(ends, activations, "matmuls")


def matmuls(of: ov.Model) -> int:
    return sum(node.get_type_name() == "MatMul" for node in of.get_ops())


def outputs(of: ov.Model) -> list[NDArray[np.float32]]:
    request = (
        openvino_core().compile_model(of, "CPU", {"INFERENCE_PRECISION_HINT": "f32"}).create_infer_request()
    )
    given = np.random.default_rng(1).standard_normal((5, 1, WIDTH), np.float32)
    return [np.array(value) for value in request.infer([given] * len(of.inputs)).values()]


@pytest.mark.parametrize("biased", [True, False])
def test_matmuls_of_the_same_activations_are_fused_with_equal_results(biased: bool) -> None:
    plain, fused = model((64, 16, 16), biased=biased), model((64, 16, 16), biased=biased)
    fuse_matmuls(fused)
    assert (matmuls(plain), matmuls(fused)) == (3, 1)
    for expected, found in zip(outputs(plain), outputs(fused), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_biases_are_added_once() -> None:
    fused = model((64, 16, 16))
    fuse_matmuls(fused)
    assert sum(node.get_type_name() == "Add" for node in fused.get_ops()) == 1


@pytest.mark.parametrize(
    "left",
    [
        model((4096, 16)),
        model((64, 16), kind=ov.Type.u4),
        model((64, 16), inputs=2),
    ],
    ids=["wide", "two numbers in a byte", "other activations"],
)
def test_wide_or_incompatible_matmuls_are_not_fused(left: ov.Model) -> None:
    fuse_matmuls(left)
    assert matmuls(left) == 2


def test_a_bias_that_the_others_lack_is_not_fused() -> None:
    plain, fused = model((32, 16), biased=False), model((32, 16), biased=False)
    for one in (plain, fused):
        result = one.get_results()[0]
        result.input(0).replace_source_output(
            opset.add(result.input_value(0), opset.constant(np.ones((1, 1, 32), np.float32))).output(0)
        )
    fuse_matmuls(fused)
    assert matmuls(fused) == 1
    for expected, found in zip(outputs(plain), outputs(fused), strict=True):
        np.testing.assert_array_equal(found, expected)
