"""The group size of dynamic quantisation, by the weights of a model."""

from __future__ import annotations

from typing import Any

import numpy as np
import openvino as ov
import openvino.opset15 as opset
import pytest

from agentrt.runtime.model.dynamic_quantization import quantization_properties

ROWS = 32


def model(*matrices: tuple[int, int | None, Any]) -> ov.Model:
    """Products of activations with matrices of so many columns in groups, whose codes have this type."""
    inputs, products = [], []
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
        products.append(opset.matmul(state, weights, False, True))
    return ov.Model(products, inputs)


EIGHT, FOUR = ov.Type.i8, ov.Type.i4


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
def test_the_largest_size_that_divides_all_groups(
    matrices: list[tuple[int, int | None, Any]], size: int | None
) -> None:
    first, *others = matrices
    pieces = [model(first), model(*others)] if others else [model(first)]
    expected = {} if size is None else {"DYNAMIC_QUANTIZATION_GROUP_SIZE": size}
    assert quantization_properties(pieces, "CPU", {}) == expected


def test_what_the_user_has_chosen_stays() -> None:
    chosen = {"DYNAMIC_QUANTIZATION_GROUP_SIZE": 0}
    assert quantization_properties([model((1536, 128, EIGHT))], "CPU", chosen) == {}


def test_other_devices_choose_for_themselves() -> None:
    assert quantization_properties([model((1536, 128, EIGHT))], "NPU", {}) == {}


def test_weights_that_are_not_transposed_have_no_groups_in_a_row() -> None:
    state = opset.parameter([-1, 1024], ov.Type.f32)
    codes = opset.convert(opset.constant(np.ones((1024, ROWS)), EIGHT), ov.Type.f32)
    weights = opset.multiply(codes, opset.constant(np.ones((1, ROWS), np.float32)))
    product = opset.matmul(state, weights, False, False)
    assert quantization_properties([ov.Model([product], [state])], "CPU", {}) == {}
