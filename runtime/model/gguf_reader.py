"""Reads the header of a GGUF file, and checks that the file is complete before it is memory-mapped."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

from agentrt.errors import ModelFormatError

_MAGIC: Final = b"GGUF"
_VERSIONS: Final = (2, 3)
_MAX_ITEMS: Final = 10**8
"""No file has more entries. A larger count means that the file is damaged, and is refused before use."""

_SCALARS: Final = {
    0: "<B",
    1: "<b",
    2: "<H",
    3: "<h",
    4: "<I",
    5: "<i",
    6: "<f",
    7: "<?",
    10: "<Q",
    11: "<q",
    12: "<d",
}
# Quantisation type -> bytes and elements of one block.
_BLOCKS: Final = {
    0: (4, 1),
    1: (2, 1),
    2: (18, 32),
    3: (20, 32),
    6: (22, 32),
    7: (24, 32),
    8: (34, 32),
    10: (84, 256),
    11: (110, 256),
    12: (144, 256),
    13: (176, 256),
    14: (210, 256),
    30: (2, 1),
}
_OTHER_BLOCK: Final = (1, 4)  # every other quantisation type has at least two bits per element
_STRING: Final = 8
_ARRAY: Final = 9


@dataclass(frozen=True, slots=True)
class GGUFHeader:
    """The part of a GGUF file that precedes its weights."""

    metadata: dict[str, Any]
    """Keys and values, without arrays (most of which are vocabularies)."""
    size: int
    """Bytes of the file in front of its weights."""

    @property
    def architecture(self) -> str:
        """The model's architecture: ``llama``, ``qwen2``, …"""
        return str(self.metadata.get("general.architecture", ""))


def read_gguf_header(file: Path) -> GGUFHeader:
    """Read the header of ``file``.

    Raises:
        ModelFormatError: it is not a GGUF file, or its weights are truncated.
    """
    try:
        with file.open("rb") as stream:
            return _read(stream, file.stat().st_size)
    except (struct.error, ValueError) as error:
        raise ModelFormatError(
            f"{file} is not a complete GGUF file ({error}). Download or copy it again."
        ) from error
    except OSError as error:
        raise ModelFormatError(f"{file} cannot be read ({error.strerror}). Check its permissions.") from error


def _read(stream: BinaryIO, file_size: int) -> GGUFHeader:
    if stream.read(4) != _MAGIC:
        raise ValueError("it does not begin with GGUF")
    version, tensors, entries = _unpack(stream, "<IQQ")
    if version not in _VERSIONS:
        raise ValueError(f"version {version} is unknown")
    if max(tensors, entries) > _MAX_ITEMS:
        raise ValueError("its counts are impossible")
    metadata = _metadata(stream, entries)
    weights_end = _weights_end(stream, tensors)
    alignment = int(metadata.get("general.alignment", 32))
    size = -(-stream.tell() // alignment) * alignment
    if tensors and size + weights_end > file_size:
        raise ValueError(f"its weights reach beyond its end at byte {file_size}")
    return GGUFHeader(metadata, size)


def _metadata(stream: BinaryIO, entries: int) -> dict[str, Any]:
    metadata: dict[str, Any] = {}
    for _ in range(entries):
        key = _string(stream)
        (kind,) = _unpack(stream, "<I")
        value = _value(stream, kind)
        if kind != _ARRAY:
            metadata[key] = value
    return metadata


def _weights_end(stream: BinaryIO, tensors: int) -> int:
    """Read the descriptions of all tensors; return where the last one ends, in bytes from the first one."""
    end = 0
    for _ in range(tensors):
        _string(stream)
        (dimensions,) = _unpack(stream, "<I")
        if dimensions > 8:
            raise ValueError(f"a tensor of {dimensions} dimensions")
        extents = _unpack(stream, f"<{dimensions}Q")
        kind, offset = _unpack(stream, "<IQ")
        block_bytes, block_elements = _BLOCKS.get(kind, _OTHER_BLOCK)
        end = max(end, offset + math.prod(extents) * block_bytes // block_elements)
    return end


def _value(stream: BinaryIO, kind: int) -> Any:
    if kind == _STRING:
        return _string(stream)
    if kind == _ARRAY:
        inner, count = _unpack(stream, "<IQ")
        if count > _MAX_ITEMS:
            raise ValueError("an array of impossible length")
        if inner in _SCALARS:
            stream.seek(count * struct.calcsize(_SCALARS[inner]), 1)
        else:
            for _ in range(count):
                _value(stream, inner)
        return None
    if kind not in _SCALARS:
        raise ValueError(f"a value of unknown type {kind}")
    return _unpack(stream, _SCALARS[kind])[0]


def _string(stream: BinaryIO) -> str:
    (length,) = _unpack(stream, "<Q")
    if length > _MAX_ITEMS:
        raise ValueError("a text of impossible length")
    text = stream.read(length)
    if len(text) < length:
        raise ValueError("it ends in its header")
    return text.decode("utf-8", "replace")


def _unpack(stream: BinaryIO, layout: str) -> tuple[Any, ...]:
    return struct.unpack(layout, stream.read(struct.calcsize(layout)))
