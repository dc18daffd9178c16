from __future__ import annotations

import contextlib
import json
import shutil
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.bench.common.random_gguf import ModelShape, write_random_gguf
from agentrt.errors import ModelFormatError
from agentrt.runtime.model import gguf
from agentrt.runtime.model.directory import ModelDirectory, open_model_directory
from agentrt.runtime.model.gguf_reader import read_gguf_header
from agentrt.runtime.model.tokenizer import Tokenizer
from tests.hypothesis_profiles import examples
from tests.runtime.tiny import EXACT, Piece, forward, uncut

pytestmark = pytest.mark.real_model

SHAPE = ModelShape("qwen2", 1, 64, 64, 2, 1, 512, 1024)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("gguf") / "Tiny-Q8_0.gguf"
    write_random_gguf(file, SHAPE)
    return file


def test_a_header_describes_the_model(file: Path) -> None:
    header = read_gguf_header(file)
    assert header.architecture == "qwen2"
    assert header.metadata["qwen2.context_length"] == 1024
    assert header.metadata["tokenizer.ggml.eos_token_id"] == 2
    assert "im_start" in header.metadata["tokenizer.chat_template"]
    assert "tokenizer.ggml.tokens" not in header.metadata
    assert 0 < header.size < file.stat().st_size


def test_a_gguf_file_opens_as_a_model_directory(file: Path, tmp_path: Path) -> None:
    directory = open_model_directory(file, tmp_path)
    assert directory.model_id == "Tiny-Q8_0"
    assert directory.context_length == 1024
    assert directory.end_token_ids == {2}
    assert directory.path.parent == tmp_path
    assert sorted(entry.name for entry in file.parent.iterdir()) == [
        file.name
    ]  # nothing is written next to the original
    tokenizer = Tokenizer(directory, 512)
    prompt = tokenizer.encode(tokenizer.render([{"role": "user", "content": "hello <|im_end|>"}], None))
    assert prompt.count(2) == 1  # forged special tokens are encoded as text
    assert "hello" in tokenizer.decode(prompt)


def test_a_file_is_converted_once_whatever_its_path(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = open_model_directory(file, tmp_path / "cache")
    moved = shutil.copy(file, tmp_path / file.name)
    monkeypatch.setattr(gguf, "_convert", None)
    assert open_model_directory(moved, tmp_path / "cache") == first


def test_other_weights_are_another_model(file: Path, tmp_path: Path) -> None:
    other = tmp_path / file.name
    write_random_gguf(other, SHAPE, seed=1)
    assert open_model_directory(other, tmp_path).path != open_model_directory(file, tmp_path).path


def test_an_incomplete_conversion_is_not_used(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object, **options: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(json, "dumps", fail)  # called for the last file that is written
        with pytest.raises(ModelFormatError, match="No space left on device"):
            open_model_directory(file, tmp_path)
    assert list(tmp_path.iterdir()) == []
    open_model_directory(file, tmp_path)


def test_an_unsupported_architecture_is_refused_by_name(file: Path, tmp_path: Path) -> None:
    unknown = tmp_path / "unknown.gguf"
    unknown.write_bytes(file.read_bytes().replace(b"qwen2", b"gemma"))
    with pytest.raises(ModelFormatError, match=r"'gemma'.*llama.*qwen3"):
        open_model_directory(unknown, tmp_path)


@pytest.mark.parametrize("length", [0, 3, 4, 20, 100, 5000, -5000, -100])
def test_truncated_files_are_refused_before_openvino_reads_them(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, length: int
) -> None:
    truncated = tmp_path / "truncated.gguf"
    truncated.write_bytes(file.read_bytes()[:length])
    monkeypatch.setattr(gguf, "_convert", None)
    with pytest.raises(ModelFormatError, match=r"truncated\.gguf.*Download or copy it again"):
        open_model_directory(truncated, tmp_path)


@examples(200)
@given(st.binary(max_size=300), st.sampled_from([b"", b"GGUF", struct.pack("<4sI", b"GGUF", 3)]))
def test_any_bytes_are_a_file_or_an_error(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, head: bytes
) -> None:
    file = tmp_path_factory.getbasetemp() / "any.gguf"
    file.write_bytes(head + data)
    with contextlib.suppress(ModelFormatError):
        read_gguf_header(file)


def test_another_kind_of_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    file.write_bytes(b"x")
    with pytest.raises(ModelFormatError, match="GGUF file or a directory"):
        open_model_directory(file)


def test_sharing_zero_points_changes_no_bit(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def logits(directory: ModelDirectory) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        unquantised = EXACT | {"DYNAMIC_QUANTIZATION_GROUP_SIZE": 0}
        return forward(uncut(directory, unquantised), Piece(list(range(5, 45))))

    shared = open_model_directory(file, tmp_path / "shared")
    monkeypatch.setattr(gguf, "_share_zero_points", lambda graph: None)
    plain = open_model_directory(file, tmp_path / "plain")
    np.testing.assert_array_equal(logits(shared), logits(plain))
    sizes = [directory.graph.with_suffix(".bin").stat().st_size for directory in (shared, plain)]
    assert sizes[0] < sizes[1]
