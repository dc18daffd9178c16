"""Damaged and hostile files: typed errors, within bounds that the size of the file sets."""

from __future__ import annotations

import contextlib
import struct
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.errors import ModelFormatError
from agentrt.runtime.model.directory import open_model_directory
from agentrt.runtime.model.gguf.file_format import read_header
from tests.hypothesis_profiles import examples
from tests.runtime.model.gguf.families import write_family

U32, U64, STRING, ARRAY, F32 = 4, 10, 8, 9, 0
HUGE = 2**63


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return write_family(tmp_path_factory.mktemp("content") / "model.gguf", "qwen2").read_bytes()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "model.gguf"


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def entry(key: str, kind: int, value: bytes) -> bytes:
    return text(key) + struct.pack("<I", kind) + value


def tensor(name: str, extents: tuple[int, ...], offset: int = 0, kind: int = F32) -> bytes:
    return text(name) + struct.pack(f"<I{len(extents)}QIQ", len(extents), *extents, kind, offset)


def gguf(*parts: bytes, tensors: int = 0, entries: int = 0, version: int = 3, data: int = 4096) -> bytes:
    return struct.pack("<4sIQQ", b"GGUF", version, tensors, entries) + b"".join(parts) + bytes(data)


@contextlib.contextmanager
def bounded_memory() -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < 16 * 2**20
    finally:
        tracemalloc.stop()


def test_a_header_describes_the_model(content: bytes, file: Path) -> None:
    file.write_bytes(content)
    header = read_header(file)
    assert header.metadata["general.architecture"] == "qwen2"
    assert header.metadata["qwen2.context_length"] == 1024
    assert header.metadata["qwen2.attention.layer_norm_rms_epsilon"] == np.float32(1e-6)
    assert header.metadata["tokenizer.ggml.add_bos_token"] is False
    assert len(header.metadata["tokenizer.ggml.tokens"]) == 320
    assert "im_start" in header.metadata["tokenizer.chat_template"]
    embedding = header.tensors[0]
    assert (embedding.name, embedding.shape, embedding.row_bytes) == ("token_embd.weight", (320, 64), 256)
    assert header.size == embedding.offset


def test_every_truncation_is_refused(content: bytes, file: Path) -> None:
    for length in {0, 3, 4, len(content) - 1, *np.linspace(0, len(content), 200, endpoint=False, dtype=int)}:
        file.write_bytes(content[:length])
        with pytest.raises(ModelFormatError, match=r"model\.gguf.*Download or copy it again"):
            open_model_directory(file, file.parent)
    assert [entry.name for entry in file.parent.iterdir()] == ["model.gguf"]


def flipped(content: bytes, file: Path, times: int) -> Iterator[bytes]:
    """Yield ``content`` with one bit of its header changed."""
    file.write_bytes(content)
    random = np.random.default_rng(0)
    for at in random.integers(0, read_header(file).size, times):
        damaged = bytearray(content)
        damaged[at] ^= 1 << random.integers(8)
        yield bytes(damaged)


def test_flipped_bytes_of_a_header(content: bytes, file: Path) -> None:
    refused = 0
    for damaged in flipped(content, file, 300):
        file.write_bytes(damaged)
        try:
            read_header(file)
        except ModelFormatError:
            refused += 1
    assert refused > 30


@pytest.mark.check
def test_flipped_bytes_convert_or_are_refused(content: bytes, file: Path) -> None:
    for damaged in flipped(content, file, 60):
        file.write_bytes(damaged)
        with contextlib.suppress(ModelFormatError):
            open_model_directory(file, file.parent)


@pytest.mark.parametrize(
    ("damaged", "message"),
    [
        (gguf(version=1), "version 1 is unknown"),
        (gguf(version=0x03000000), "version 50331648 is unknown"),  # big-endian
        (gguf(tensors=HUGE), "claims 9223372036854775808 tensors"),
        (gguf(entries=HUGE), "claims 9223372036854775808 metadata entries"),
        (gguf(entries=400), "two entries ''|unknown type|ends in its header"),
        (gguf(struct.pack("<Q", HUGE), entries=1), "ends in its header"),
        (gguf(entry("a", STRING, struct.pack("<Q", HUGE)), entries=1), "ends in its header"),
        (gguf(entry("a", ARRAY, struct.pack("<IQ", U32, HUGE)), entries=1), "claims .* elements"),
        (gguf(entry("a", ARRAY, struct.pack("<IQ", STRING, HUGE)), entries=1), "claims .* strings"),
        (gguf(entry("a", ARRAY, struct.pack("<IQ", ARRAY, 1)), entries=1), "unknown type 9"),
        (gguf(entry("a", 99, b""), entries=1), "unknown type 99"),
        (gguf(*[entry("a", U32, bytes(4))] * 2, entries=2), "two entries 'a'"),
        (gguf(entry("general.alignment", U32, bytes(4)), entries=1), "alignment is 0"),
        (gguf(entry("general.alignment", U32, b"\x03\0\0\0"), entries=1), "alignment is 3"),
        (gguf(entry("general.alignment", STRING, text("x")), entries=1), "alignment is 'x'"),
        (gguf(tensor("a", ()), tensors=1), "0 dimensions"),
        (gguf(tensor("a", (1,) * 5), tensors=1), "5 dimensions"),
        (gguf(tensor("a", (HUGE, HUGE)), tensors=1), "impossible as F32"),
        (gguf(tensor("a", (0, 4)), tensors=1), "impossible as F32"),
        (gguf(tensor("a", (33, 4), kind=8), tensors=1), "impossible as Q8_0"),
        (gguf(tensor("a", (32,), kind=4), tensors=1), "unknown quantisation 4"),
        (gguf(tensor("a", (32,), kind=12345), tensors=1), "unknown quantisation 12345"),
        (gguf(tensor("a", (8,), 2**64 - 32), tensors=1), "reach beyond its end"),
        (gguf(tensor("a", (2**40,)), tensors=1), "reach beyond its end"),
        (gguf(tensor("a", (8,), 5), tensors=1), "not aligned"),
        (gguf(tensor("a", (16,)), tensor("b", (8,), 32), tensors=2), "'a' and 'b' overlap"),
        (gguf(tensor("a", (8,)), tensor("b", (8,)), tensors=2), "'a' and 'b' overlap"),
        (gguf(tensor("a", (8,)), tensor("a", (8,), 32), tensors=2), "two of its tensors have one name"),
        (b"GGU", "is no GGUF file"),
        (b"", "is no GGUF file"),
        (b"GGUF", "ends in its header"),
        (b"PK\x03\x04" + bytes(100), "is no GGUF file"),
        (b"A plain text.\n", "is no GGUF file"),
    ],
)
def test_lies_are_refused_within_the_size_of_the_file(damaged: bytes, message: str, file: Path) -> None:
    file.write_bytes(damaged)
    with bounded_memory(), pytest.raises(ModelFormatError, match=message):
        read_header(file)


@examples(200)
@given(st.binary(max_size=300), st.sampled_from([b"", b"GGUF", struct.pack("<4sI", b"GGUF", 3)]))
def test_any_bytes_are_a_header_or_an_error(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, head: bytes
) -> None:
    file = tmp_path_factory.getbasetemp() / "any.gguf"
    file.write_bytes(head + data)
    with contextlib.suppress(ModelFormatError):
        read_header(file)


def test_a_gguf_file_under_another_name_is_opened(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "model.bin"
    file.write_bytes(content)
    assert open_model_directory(file, tmp_path / "cache").model_id == "model"


def test_an_unreadable_file_is_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*args: object, **options: object) -> None:
        raise PermissionError(13, "Permission denied")

    file.write_bytes(b"GGUF")
    monkeypatch.setattr(Path, "open", denied)
    with pytest.raises(ModelFormatError, match=r"cannot be read \(Permission denied\)"):
        read_header(file)
