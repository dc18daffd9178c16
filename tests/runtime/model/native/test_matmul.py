"""Products with weights as they are in GGUF files, against NumPy on the weights that ``gguf`` dequantises."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import openvino as ov
import openvino.opset15 as opset
import pytest
from gguf.constants import GGML_QUANT_SIZES
from gguf.constants import GGMLQuantizationType as Type
from gguf.quants import dequantize, quantize
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from agentrt.runtime.model.native import library as module
from agentrt.runtime.model.native.library import COMPILER, TYPES, NativeLibrary, native_library
from agentrt.runtime.model.openvino_core import openvino_core
from tests.hypothesis_profiles import examples
from tests.runtime.model.gguf.test_quantisation import random_blocks

pytestmark = pytest.mark.needs("c++")

INSTRUCTIONS = ("portable", "avx2", "avx_vnni", "avx512_vnni")
MANY = 40
"""Rows of several tiles."""
SPAN = 128
"""Columns that share a scale in products of prompts."""
FIRST_CODE = {Type.Q4_1: 4, Type.Q5_1: 4, Type.Q4_K: 16, Type.Q5_K: 16, Type.Q6_K: 0}
"""Where the codes of a block begin; else behind two bytes. Those of Q6_K are in front of its scales."""

Floats = NDArray[np.float32]


@pytest.fixture(scope="module")
def library() -> NativeLibrary:
    found = native_library()
    assert found is not None
    return found


@pytest.fixture(scope="module")
def every_set(library: NativeLibrary, tmp_path_factory: pytest.TempPathFactory) -> NativeLibrary:
    """A library with all instruction sets; ``library`` has those of this processor."""
    compiler = module._compiler()
    assert compiler is not None
    path = tmp_path_factory.mktemp("native") / "every_set.so"
    module.compile_library(
        compiler, path, ["-O1", "-fexpensive-optimizations"]
    )  # else products are not fused
    return NativeLibrary(path)


def in_spans(values: Floats) -> Floats:
    """Return the columns in spans, the last of which is filled with zeros."""
    filled = np.pad(values, ((0, 0), (0, -values.shape[1] % SPAN)))
    return np.asarray(filled.reshape(len(values), -1, SPAN))


def rounded(groups: Floats, *, fused: bool) -> Floats:
    """Return groups of activations as they are multiplied: in 8 bits, with a scale for each.

    ``fused`` says whether the processor rounds a product and a sum at once.
    """
    most = np.abs(groups).max(axis=2, keepdims=True)
    inverse = np.divide(np.float32(127), most, out=np.zeros_like(most), where=most > 0)
    scaled = groups.astype(np.float64) * inverse if fused else groups * inverse
    codes = np.rint(scaled) * (most / np.float32(127))
    return np.asarray(codes, np.float32).reshape(len(groups), -1)


def matrix(library: NativeLibrary, type: Type, rows: int, columns: int) -> tuple[Floats, NDArray[np.uint8]]:
    """Return random weights, and the same as panels."""
    stored = random_blocks(type, rows, columns).reshape(rows, -1)
    return dequantised(stored, type), library.pack(type, stored, columns)


def dequantised(stored: NDArray[np.uint8], type: Type) -> Floats:
    return np.asarray(dequantize(stored, type), np.float32).reshape(len(stored), -1)


def steps(stored: NDArray[np.uint8], type: Type) -> Floats:
    """Return the steps to which each weight is rounded for prompts: of 127 to the farthest in its span."""
    blocks = stored.reshape(len(stored), -1, GGML_QUANT_SIZES[type][1])
    ends = []
    for code in (0x80, 0x7F) if type is Type.Q8_0 else (0x00, 0xFF):
        extreme = blocks.copy()
        extreme[..., FIRST_CODE.get(type, 2) : 192 if type is Type.Q6_K else None] = code
        ends.append(np.abs(dequantised(extreme.reshape(stored.shape), type)))
    farthest = in_spans(np.maximum(*ends)).max(axis=2)
    return np.repeat(farthest / 127, SPAN, axis=1)[:, : ends[0].shape[1]]


def moderate(library: NativeLibrary, type: Type, rows: int, columns: int) -> tuple[Floats, NDArray[np.uint8]]:
    """Return weights of which products are moderate, and the same as panels."""
    values = np.random.default_rng(rows).standard_normal((rows, columns)).astype(np.float32) / columns**0.5
    stored = quantize(4 * values, type).view(np.uint8)
    return dequantised(stored, type), library.pack(type, stored, columns)


@examples(40)
@given(
    type=st.sampled_from(sorted(Type[name] for name in TYPES)),
    rows=st.integers(1, 40),
    units=st.integers(1, 3),
    count=st.integers(1, MANY),
    seed=st.integers(0, 2**32 - 1),
    instructions=st.sampled_from(INSTRUCTIONS),
)
def test_products_are_exact_but_for_8_bits_of_activations_and_rows_are_computed_alike(
    library: NativeLibrary,
    every_set: NativeLibrary,
    type: Type,
    rows: int,
    units: int,
    count: int,
    seed: int,
    instructions: str,
) -> None:
    columns = units * max(32, GGML_QUANT_SIZES[type][0])
    weights, panels = matrix(library, type, rows, columns)
    values = np.random.default_rng(seed).standard_normal((count, columns)).astype(np.float32)
    product = every_set.multiply(values, type, panels, rows, instructions)
    if product is None:
        return  # this processor lacks them
    if instructions == library.instructions:
        np.testing.assert_array_equal(library.multiply(values, type, panels, rows), product)
    codes = rounded(values.reshape(count, -1, 32), fused=instructions != "portable")
    expected = codes.astype(np.float64) @ weights.T.astype(np.float64)
    scale = np.abs(values).astype(np.float64) @ np.abs(weights).T.astype(np.float64)
    assert np.all(np.abs(product - expected) <= 1e-5 * scale + 1e-6)
    alone = [every_set.multiply(row[None], type, panels, rows, instructions) for row in values]
    np.testing.assert_array_equal(product, np.concatenate([each for each in alone if each is not None]))


@examples(40)
@given(
    type=st.sampled_from(sorted(Type[name] for name in TYPES)),
    rows=st.integers(1, 40),
    units=st.integers(1, 9),
    count=st.integers(1, MANY),
    seed=st.integers(0, 2**32 - 1),
    instructions=st.sampled_from(INSTRUCTIONS),
)
def test_for_prompts_weights_are_rounded_to_8_bits_and_rows_are_computed_alike(
    every_set: NativeLibrary, type: Type, rows: int, units: int, count: int, seed: int, instructions: str
) -> None:
    columns = units * max(32, GGML_QUANT_SIZES[type][0])
    stored = random_blocks(type, rows, columns).reshape(rows, -1)
    panels = every_set.pack(type, stored, columns)

    def multiply(values: Floats) -> Floats | None:
        return every_set.multiply(values, type, panels, rows, instructions, prompt=True)

    ones = multiply(np.eye(columns, dtype=np.float32))
    if ones is None:
        return  # this processor lacks them
    weights, step = dequantised(stored, type), steps(stored, type)
    assert np.all(np.abs(ones.T - weights) <= 0.8 * step + 1e-6 * np.abs(weights))
    values = np.random.default_rng(seed).standard_normal((count, columns)).astype(np.float32)
    product = multiply(values)
    assert product is not None
    codes = rounded(in_spans(values), fused=instructions != "portable")[:, :columns]
    scale = np.abs(values).astype(np.float64) @ np.abs(ones)
    assert np.all(np.abs(product - codes.astype(np.float64) @ ones) <= 1e-5 * scale + 1e-6)
    alone = [multiply(row[None]) for row in values]
    np.testing.assert_array_equal(product, np.concatenate([each for each in alone if each is not None]))


def test_another_processor_has_another_library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    here = module._path("g++")
    monkeypatch.setattr(module, "_PROCESSOR", tmp_path / "cpuinfo")
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nflags\t\t: fpu avx2 fma f16c\n")
    there = module._path("g++")
    assert here != there
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nflags\t\t: fpu avx2 fma f16c avx_vnni\n")
    assert module._path("g++") not in (here, there)


def test_rows_of_zeros_are_zeros(library: NativeLibrary) -> None:
    _, panels = matrix(library, Type.Q4_K, 16, 256)
    product = library.multiply(np.zeros((3, 256), np.float32), Type.Q4_K, panels, 16)
    np.testing.assert_array_equal(product, np.zeros((3, 16)))


def test_only_whole_units_are_multiplied_as_they_are(library: NativeLibrary) -> None:
    assert library.multiplies(Type.Q4_K, 512)
    assert not library.multiplies(Type.Q4_K, 512 + 128)
    assert library.multiplies(Type.Q8_0, 96)
    assert not library.multiplies(Type.Q3_K, 256)


def operations(library: NativeLibrary, *, told: bool) -> Callable[[Floats, Sequence[int]], list[Floats]]:
    """Return what computes a feed-forward and a product of rows, and of which lengths their sequences are.

    The operations learn where sequences begin if they are ``told``.
    """
    types, shapes = [Type.Q4_0, Type.Q5_1, Type.Q8_0], [(352, 256), (352, 256), (256, 352)]
    panels = [
        opset.constant(moderate(library, type, *shape)[1]).output(0)
        for type, shape in zip(types, shapes, strict=True)
    ]
    state, begins = opset.parameter([-1, 256], ov.Type.f32), opset.parameter([-1], ov.Type.i32)
    fed = library.feed_forward(state.output(0), panels, types, [352, 352, 256], "silu")
    (product,) = library.matmul(state.output(0), panels[:1], types[:1], [352])
    for output in (fed, product) if told else ():
        output.get_node().set_argument(output.get_node().get_input_size(), begins.output(0))
    module.load_operations()
    model = ov.Model([opset.result(fed), opset.result(product)], [state, begins])
    compiled = openvino_core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return lambda rows, lengths: [
        found.copy() for found in compiled([rows, np.cumsum([0, *lengths], dtype=np.int32)]).to_tuple()
    ]


@pytest.mark.parametrize("lengths", [[2], [1, 1, 40, 1, 0, 30, 2], [3, 700, 1]])
def test_rows_of_prompts_are_those_of_sequences_with_several(
    library: NativeLibrary, lengths: list[int]
) -> None:
    rows = np.random.default_rng(1).standard_normal((sum(lengths), 256)).astype(np.float32)
    compute, untold = operations(library, told=True), operations(library, told=False)
    fed, product = compute(rows, lengths)
    for begin, end in itertools.pairwise(itertools.accumulate(lengths, initial=0)):
        part = rows[begin:end]
        if begin == end:
            continue
        for found, alone in zip((fed, product), compute(part, [len(part)]), strict=True):
            np.testing.assert_array_equal(found[begin:end], alone)
        for found, exact in zip((fed, product), untold(part, [len(part)]), strict=True):
            assert np.array_equal(found[begin:end], exact) == (len(part) == 1)
            assert np.abs(found[begin:end] - exact).max() < 0.1 * np.abs(exact).max()


@pytest.mark.parametrize("count", [1, 7, MANY])
def test_the_operations_of_a_graph_are_these_products(library: NativeLibrary, count: int) -> None:
    hidden, inner = 256, 512
    types = {"gate": Type.Q4_0, "up": Type.Q5_1, "down": Type.Q8_0}
    shapes = {"gate": (inner, hidden), "up": (inner, hidden), "down": (hidden, inner)}
    made = {name: moderate(library, type, *shapes[name]) for name, type in types.items()}
    embedding, embedded = moderate(library, Type.Q8_0, 100, hidden)
    ids = opset.parameter([-1, -1], ov.Type.i32)
    state = library.gather(opset.constant(embedded).output(0), ids.output(0), Type.Q8_0, hidden)
    panels = [opset.constant(made[name][1]).output(0) for name in types]
    fed = library.feed_forward(state, panels, list(types.values()), [inner, inner, hidden], "silu")
    gate, up = library.matmul(state, panels[:2], [Type.Q4_0, Type.Q5_1], [inner, inner])
    module.load_operations()
    model = ov.Model([opset.result(each) for each in (state, fed, gate, up)], [ids])
    chosen = np.random.default_rng(0).integers(0, 100, (1, count), dtype=np.int32)
    found = openvino_core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})([chosen])
    rows, output, gates, values = (found[place][0] for place in range(4))
    np.testing.assert_allclose(rows, embedding[chosen[0]], rtol=1e-5)
    np.testing.assert_array_equal(gates, library.multiply(rows, Type.Q4_0, made["gate"][1], inner))
    np.testing.assert_array_equal(values, library.multiply(rows, Type.Q5_1, made["up"][1], inner))
    assert 0.1 < np.abs(gates).mean() < 10
    activated = gates / (1 + np.exp(-gates)) * values
    expected = activated @ made["down"][0].T
    assert np.sqrt(np.mean((output - expected) ** 2) / np.mean(expected**2)) < 0.03


def test_gelu_is_that_by_tanh(library: NativeLibrary) -> None:
    type, width = Type.Q8_0, 32
    identity = np.zeros((width, 34), np.uint8)
    identity[:, :2] = np.float16(1).tobytes()[0], np.float16(1).tobytes()[1]
    identity[np.arange(width), 2 + np.arange(width)] = 1
    ones = opset.constant(library.pack(type, identity, width)).output(0)
    state = opset.parameter([-1, width], ov.Type.f32)
    fed = library.feed_forward(state.output(0), [ones] * 3, [type] * 3, [width] * 3, "gelu")
    module.load_operations()
    compiled = openvino_core().compile_model(ov.Model([opset.result(fed)], [state]), "CPU")
    x = np.linspace(-8, 8, width, dtype=np.float32)
    gelu = 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3)))
    np.testing.assert_allclose(compiled([x[None]])[0][0], gelu * x, atol=0.5)


def test_a_compiler_that_fails_is_named_and_models_open_without_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\necho 'no such header' >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv(COMPILER, str(broken))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert native_library.__wrapped__() is None
    assert "no such header" in caplog.text
    monkeypatch.setenv(COMPILER, "no-such-compiler")
    assert native_library.__wrapped__() is None
