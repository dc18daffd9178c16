"""Products with weights as they are in GGUF files, against NumPy on the weights that ``gguf`` dequantises."""

from __future__ import annotations

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
"""Rows for which the codes of weights are taken apart first."""

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


def rounded(values: Floats, *, fused: bool) -> Floats:
    """Return activations as they are multiplied: in 8 bits, with a scale for each 32.

    ``fused`` says whether the processor rounds a product and a sum at once.
    """
    groups = values.reshape(len(values), -1, 32)
    most = np.abs(groups).max(axis=2, keepdims=True)
    inverse = np.divide(np.float32(127), most, out=np.zeros_like(most), where=most > 0)
    scaled = groups.astype(np.float64) * inverse if fused else groups * inverse
    return np.asarray(np.rint(scaled) * (most / np.float32(127)), np.float32).reshape(values.shape)


def matrix(library: NativeLibrary, type: Type, rows: int, columns: int) -> tuple[Floats, NDArray[np.uint8]]:
    """Return random weights, and the same as panels."""
    blocks = random_blocks(type, rows, columns)
    stored = blocks.reshape(rows, -1)
    weights = np.asarray(dequantize(stored, type), np.float32).reshape(rows, columns)
    return weights, library.pack(type, stored, columns)


def moderate(library: NativeLibrary, type: Type, rows: int, columns: int) -> tuple[Floats, NDArray[np.uint8]]:
    """Return weights of which products are moderate, and the same as panels."""
    values = np.random.default_rng(rows).standard_normal((rows, columns)).astype(np.float32) / columns**0.5
    stored = quantize(4 * values, type).view(np.uint8)
    return np.asarray(dequantize(stored, type), np.float32), library.pack(type, stored, columns)


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
    codes = rounded(values, fused=instructions != "portable")
    expected = codes.astype(np.float64) @ weights.T.astype(np.float64)
    scale = np.abs(values).astype(np.float64) @ np.abs(weights).T.astype(np.float64)
    assert np.all(np.abs(product - expected) <= 1e-5 * scale + 1e-6)
    alone = [every_set.multiply(row[None], type, panels, rows, instructions) for row in values]
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
