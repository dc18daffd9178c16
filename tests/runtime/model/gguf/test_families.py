"""Each architecture against Transformers: the same weights give the same greedy tokens.

``write_expected_tokens.py`` wrote what Transformers answers.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import pytest
from gguf.constants import GGMLQuantizationType as Type
from gguf.quants import dequantize, quantize
from numpy.typing import NDArray

from agentrt.bench.common.random_gguf import write_gguf
from agentrt.errors import ModelFormatError
from agentrt.runtime.model import paged, read_graph
from agentrt.runtime.model.directory import ModelDirectory, open_model_directory
from agentrt.runtime.model.fuse_matmuls import fuse_matmuls
from agentrt.runtime.model.gguf import conversion
from agentrt.runtime.model.native.library import native_library
from agentrt.runtime.model.openvino_core import openvino_core
from agentrt.runtime.model.paged import to_paged_attention
from agentrt.runtime.xpu import loading
from tests.hypothesis_profiles import first_of
from tests.runtime import tiny
from tests.runtime.model.gguf.families import (
    EXPECTED_TOKENS,
    FAMILIES,
    LAYERS,
    PROMPT,
    metadata,
    weights,
    write_family,
)
from tests.runtime.tiny import EXACT, Piece, forward, load, uncut

pytestmark = pytest.mark.real_model

EXPECTED = json.loads(EXPECTED_TOKENS.read_text(encoding="utf-8"))
UNQUANTISED = EXACT | {"DYNAMIC_QUANTIZATION_GROUP_SIZE": 0}
TOLERANCE = 2e-4  # the expected logits have four decimals


@pytest.fixture(scope="module", params=first_of(FAMILIES, 4))
def family(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def directory(family: str, tmp_path_factory: pytest.TempPathFactory) -> ModelDirectory:
    folder = tmp_path_factory.mktemp("family")
    return open_model_directory(write_family(folder / f"{family}.gguf", family), folder / "cache")


def check(family: str, tokens: list[int], first: NDArray[np.float32]) -> None:
    np.testing.assert_allclose(first[:32], EXPECTED[family]["logits"], atol=TOLERANCE)
    assert tokens == EXPECTED[family]["tokens"]


@pytest.mark.check
def test_the_stateful_graph_answers_as_transformers(family: str, directory: ModelDirectory) -> None:
    request = ov.Core().compile_model(directory.graph, "CPU", UNQUANTISED).create_infer_request()
    first, tokens, past, new = None, [], 0, PROMPT
    for _ in EXPECTED[family]["tokens"]:
        inputs = {
            "input_ids": np.array([new]),
            "attention_mask": np.ones((1, past + len(new)), np.int64),
            "position_ids": np.arange(past, past + len(new))[None],
            "beam_idx": np.zeros(1, np.int32),
        }
        logits = request.infer(inputs)["logits"][0, -1].copy()
        first = logits if first is None else first
        past, new = past + len(new), [int(logits.argmax())]
        tokens += new
    assert first is not None
    check(family, tokens, first)


@pytest.mark.matrix
@pytest.mark.parametrize("cut", [False, True])
def test_paged_attention_answers_as_transformers(family: str, directory: ModelDirectory, cut: bool) -> None:
    loaded = (load if cut else uncut)(directory, properties=UNQUANTISED)
    first = logits = forward(loaded, Piece(PROMPT)).reshape(-1)
    tokens = [int(logits.argmax())]
    while len(tokens) < len(EXPECTED[family]["tokens"]):
        past = len(PROMPT) + len(tokens) - 1
        tokens.append(int(forward(loaded, Piece(tokens[-1:], past)).argmax()))
    check(family, tokens, first)


@pytest.mark.parametrize("type", first_of([Type.Q4_0, Type.Q8_0, Type.F16, Type.Q5_1]), ids=str)
def test_a_file_answers_as_one_of_its_dequantised_weights(type: Type, tmp_path: Path) -> None:
    stored = {
        name: quantize(values, type).view(np.uint8) if values.ndim == 2 else values
        for name, values in weights("llama").items()
    }
    plain = {
        name: values if values.ndim == 1 else np.asarray(dequantize(values, type), np.float32)
        for name, values in stored.items()
    }
    answers = []
    for at, tensors in enumerate((stored, plain)):
        file = write_gguf(tmp_path / f"{at}.gguf", metadata("llama"), tensors, type)
        loaded = uncut(open_model_directory(file, tmp_path), properties=UNQUANTISED)
        answers.append(forward(loaded, Piece(PROMPT)).reshape(-1))
    assert np.corrcoef(answers)[0, 1] > 0.99, "but for the rounding to 8 bits"


@pytest.mark.needs("c++")
@pytest.mark.parametrize(
    ("name", "type"),
    [
        ("llama", Type.Q4_0),
        pytest.param("gemma2", Type.Q5_1, marks=pytest.mark.check),
        pytest.param("phi3", Type.Q8_0, marks=pytest.mark.check),
    ],
)
def test_weights_as_they_are_give_the_answers_of_dequantised_ones(
    type: Type, name: str, tmp_path: Path
) -> None:
    stored = {
        name: quantize(values, type).view(np.uint8) if values.ndim == 2 else values
        for name, values in weights(name).items()
    }
    file = write_gguf(tmp_path / "model.gguf", metadata(name), stored, type)
    answers = []
    for native in (native_library, None):
        directory = open_model_directory(file, tmp_path, native=native)
        assert directory.native == directory.keeps_weights == (native is not None)
        loaded = (load if native else uncut)(directory, properties=UNQUANTISED)
        logits = [forward(loaded, Piece(PROMPT)).reshape(-1)]
        logits.append(forward(loaded, Piece(PROMPT[:1], len(PROMPT))).reshape(-1))
        answers.append(np.concatenate(logits))
    assert np.corrcoef(answers)[0, 1] > 0.99, "but for the rounding of activations to 8 bits"


@pytest.mark.needs("c++")
@pytest.mark.parametrize("name", ["llama", pytest.param("gemma2", marks=pytest.mark.check)])
def test_a_graph_that_is_stored_with_paged_attention_computes_the_same(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = {
        name: quantize(values, Type.Q8_0) if values.ndim == 2 else values
        for name, values in weights(name).items()
    }
    file = write_gguf(tmp_path / "model.gguf", metadata(name), stored, Type.Q8_0)
    directory = open_model_directory(file, tmp_path / "paged", native=native_library)
    with monkeypatch.context() as patch:
        patch.setattr(conversion, "_paged", lambda model, weights: model)
        stateful = open_model_directory(file, tmp_path / "stateful", native=native_library)

    def stored_graph(directory: ModelDirectory, **_: bool) -> ov.Model:
        return read_graph.read_paged_graph(directory, tell_prompts=False)

    def transformed(directory: ModelDirectory, **_: bool) -> ov.Model:
        model = openvino_core().read_model(str(directory.graph))
        return to_paged_attention(model, directory.model_id)

    answers = []
    for each, read in ((directory, stored_graph), (stateful, transformed)):
        for module in (loading, tiny):
            monkeypatch.setattr(module, "read_paged_graph", read)
        loaded = load(each, properties=UNQUANTISED)
        logits = [forward(loaded, Piece(PROMPT)), forward(loaded, Piece(PROMPT[:1], len(PROMPT)))]
        answers.append(np.concatenate(logits))
    np.testing.assert_array_equal(*answers)


@pytest.mark.needs("c++")
def test_such_a_graph_is_read_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = {
        name: quantize(values, Type.Q8_0) if values.ndim == 2 else values
        for name, values in weights("llama").items()
    }
    file = write_gguf(tmp_path / "model.gguf", metadata("llama"), stored, Type.Q8_0)
    directory = open_model_directory(file, tmp_path, native=native_library)
    monkeypatch.setattr(paged, "paged_attention_transformation", None)
    model = read_graph.read_paged_graph(directory)
    constants = [node for node in model.get_ops() if node.get_type_name() == "Constant"]
    assert len(constants) < 30 * LAYERS, "equal ones are shared"


@pytest.mark.needs("c++")
def test_one_matrix_that_is_not_multiplied_as_it_is_is_told(tmp_path: Path) -> None:
    stored = {
        name: quantize(values, Type.Q8_0) if values.ndim == 2 and "attn_output" not in name else values
        for name, values in weights("llama").items()
    }
    file = write_gguf(tmp_path / "model.gguf", metadata("llama"), stored, Type.Q8_0)
    directory = open_model_directory(file, tmp_path, native=native_library)
    assert directory.native
    assert not directory.keeps_weights


def test_left_padding_is_not_attended_to(tmp_path: Path) -> None:
    directory = open_model_directory(write_family(tmp_path / "model.gguf", "llama"), tmp_path)
    request = ov.Core().compile_model(directory.graph, "CPU", UNQUANTISED).create_infer_request()
    padded = request.infer(
        {
            "input_ids": np.array([[7, 7, *PROMPT]]),
            "attention_mask": np.array([[0, 0, *([1] * len(PROMPT))]]),
            "position_ids": np.array([[0, 0, *range(len(PROMPT))]]),
            "beam_idx": np.zeros(1, np.int32),
        }
    )["logits"][0, -1]
    np.testing.assert_allclose(padded[:32], EXPECTED["llama"]["logits"], atol=TOLERANCE)


def layer_matmuls(model: ov.Model) -> int:
    """Matmuls with weights of layers: neither the head nor the angles of positions."""
    matmuls = [node for node in model.get_ordered_ops() if node.get_type_name() == "MatMul"]
    return len([node for node in matmuls if node.get_attributes()["transpose_b"]]) - 1


@pytest.mark.check
def test_nothing_is_left_to_concatenate_when_the_model_is_opened(directory: ModelDirectory) -> None:
    model = openvino_core().read_model(str(directory.graph))
    assert layer_matmuls(model) == 4 * LAYERS
    fuse_matmuls(model)
    assert layer_matmuls(model) == 4 * LAYERS


def test_matrices_of_different_types_stay_apart(tmp_path: Path) -> None:
    tensors: dict[str, Any] = {**weights("llama")}
    tensors["blk.0.attn_v.weight"] = tensors["blk.0.attn_v.weight"].astype(np.float16)
    file = write_gguf(tmp_path / "model.gguf", metadata("llama"), tensors)
    directory = open_model_directory(file, tmp_path)
    model = openvino_core().read_model(str(directory.graph))
    assert layer_matmuls(model) == 4 * LAYERS + 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"general.architecture": "llamma"}, r"'llamma' is unknown.*nearest.*'llama'.*optimum-cli"),
        ({"general.architecture": "mamba"}, r"'mamba' is unknown.*Known are llama, qwen2"),
        ({"llama.expert_count": 8}, "mixture of experts"),
        ({"llama.rope.scaling.type": "spiral"}, "'spiral', which is unknown"),
        ({"llama.embedding_length": 32}, r"'token_embd.weight' has the shape \[320, 64\], not \[None, 32\]"),
        ({"llama.block_count": 7}, r"no tensor 'blk.6.attn_norm.weight'"),
        ({"llama.block_count": 5}, r"9 tensors that llama models do not have, such as 'blk\.5"),
        ({"llama.block_count": 2**31}, "block_count = 2.14748e.*impossible"),
        ({"llama.attention.head_count": 3}, "impossible or unknown"),
        ({"llama.rope.freq_base": 0.0}, "freq_base = 0, which is impossible"),
        ({"llama.rope.freq_base": float("nan")}, "no usable llama.rope.freq_base"),
        ({"llama.rope.dimension_count": 18}, "rotate 18 elements of heads of 16"),
        ({"tokenizer.ggml.eos_token_id": 320}, "eos token 320 is not in the vocabulary of 320"),
        ({"tokenizer.ggml.model": "bert"}, "of the kind 'bert'"),
        ({"tokenizer.ggml.tokens": ["a"] * 321, "tokenizer.ggml.token_type": [1] * 320 + [3]}, "321 tokens"),
        ({"tokenizer.ggml.token_type": [1]}, "not as many types"),
    ],
)
def test_contradictions_are_refused(changes: dict[str, object], message: str, tmp_path: Path) -> None:
    file = write_gguf(tmp_path / "model.gguf", metadata("llama") | changes, weights("llama"))
    with pytest.raises(ModelFormatError, match=message):
        open_model_directory(file, tmp_path)
    assert [entry.name for entry in tmp_path.glob("[!.]*")] == ["model.gguf"]
