"""Parses the headers of GGUF files, of which llama.cpp splits the large ones into several.

Every count, length and offset is checked against the size of the file before use.

A header is ``GGUF``, a version, the numbers of tensors and of metadata entries, the entries, and a
description of each tensor; the data of the tensors follow, aligned. All numbers are little-endian. Time and
memory of parsing are bounded by the size of the file, whatever its counts say.
"""

from __future__ import annotations

import itertools
import math
import mmap
import re
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

from agentrt.errors import ModelFormatError

_MAGIC: Final = b"GGUF"
_VERSIONS: Final = (2, 3)
_STRING: Final = 8
_ARRAY: Final = 9
_SCALARS: Final = {
    0: struct.Struct("<B"),
    1: struct.Struct("<b"),
    2: struct.Struct("<H"),
    3: struct.Struct("<h"),
    4: struct.Struct("<I"),
    5: struct.Struct("<i"),
    6: struct.Struct("<f"),
    7: struct.Struct("<?"),
    10: struct.Struct("<Q"),
    11: struct.Struct("<q"),
    12: struct.Struct("<d"),
}
_U32: Final = _SCALARS[4]
_U64: Final = _SCALARS[10]
_MAX_DIMENSIONS: Final = 4
_MAX_ELEMENTS: Final = 2**48
_ENDS: Final = "it ends in its header"
_SHORTEST: Final = 8
"""Bytes of the shortest string, metadata entry or tensor description."""
_SPLIT: Final = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})")
_MAX_PARTS: Final = 99_999


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor of a GGUF file; its data stay on disk."""

    name: str
    file: Path
    shape: tuple[int, ...]
    """Outermost extent first, as in NumPy; the file counts from the innermost."""
    type: GGMLQuantizationType
    offset: int
    """Byte of the file at which its data begin."""
    size: int
    """Bytes of its data."""

    @property
    def row_bytes(self) -> int:
        """Bytes of the elements that differ in the last index only."""
        return self.size // math.prod(self.shape[:-1])


@dataclass(frozen=True, slots=True)
class Header:
    """What precedes the data of one GGUF file."""

    file: Path
    metadata: dict[str, Any]
    tensors: tuple[Tensor, ...]
    size: int
    """Bytes in front of the tensors' data."""


def read_header(file: Path) -> Header:
    """Parse the header of ``file``.

    Raises:
        ModelFormatError: the file cannot be read, is no GGUF file, is incomplete, or contradicts itself.
    """
    try:
        with file.open("rb") as stream:
            if stream.read(len(_MAGIC)) != _MAGIC:
                raise ModelFormatError(
                    f"{file} is no GGUF file (it does not begin with GGUF). Download or copy it again, or "
                    "name another file."
                )
            with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
                return _Parser(file, content).parse()
    except _DamagedError as error:
        raise ModelFormatError(
            f"{file} is not a complete GGUF file ({error}). Download or copy it again."
        ) from error
    except OSError as error:
        raise ModelFormatError(f"{file} cannot be read ({error.strerror}). Check its permissions.") from error


class _DamagedError(Exception):
    """What is wrong with a file."""


class _Parser:
    """The content of a file, and the position of the next byte to parse."""

    def __init__(self, file: Path, content: mmap.mmap) -> None:
        self._file = file
        self._content = content
        self._position = len(_MAGIC)

    def parse(self) -> Header:
        version = self._number(_U32)
        if version not in _VERSIONS:
            raise _DamagedError(f"version {version} is unknown")
        tensors, entries = self._count("tensors"), self._count("metadata entries")
        metadata = self._metadata(entries)
        descriptions = [self._description() for _ in range(tensors)]
        alignment = metadata.get("general.alignment", 32)
        if not isinstance(alignment, int) or alignment <= 0 or alignment & (alignment - 1):
            raise _DamagedError(f"its alignment is {alignment!r}, which is no power of two")
        begin = -(-self._position // alignment) * alignment
        located = tuple(self._locate(begin, alignment, *description) for description in descriptions)
        _refuse_overlaps(located)
        return Header(self._file, metadata, located, begin)

    def _metadata(self, entries: int) -> dict[str, Any]:
        metadata: dict[str, Any] = {}
        for _ in range(entries):
            key = self._string()
            if key in metadata:
                raise _DamagedError(f"it has two entries {key!r}")
            metadata[key] = self._value(self._number(_U32))
        return metadata

    def _value(self, kind: int) -> Any:
        if kind == _STRING:
            return self._string()
        if kind == _ARRAY:
            return self._array(self._number(_U32))
        return self._number(self._scalar(kind))

    def _array(self, kind: int) -> list[Any]:
        if kind == _STRING:
            return self._strings(self._count("strings"))
        layout = self._scalar(kind)
        count = self._count("elements", layout.size)
        items = struct.unpack(f"<{count}{layout.format[1:]}", self._bytes(count * layout.size))
        return list(items)

    def _description(self) -> tuple[str, tuple[int, ...], int, int]:
        name = self._string()
        dimensions = self._number(_U32)
        if not 1 <= dimensions <= _MAX_DIMENSIONS:
            raise _DamagedError(f"tensor {name!r} has {dimensions} dimensions")
        extents = tuple(self._number(_U64) for _ in range(dimensions))
        return name, extents[::-1], self._number(_U32), self._number(_U64)

    def _locate(
        self, begin: int, alignment: int, name: str, shape: tuple[int, ...], kind: int, offset: int
    ) -> Tensor:
        try:
            type = GGMLQuantizationType(kind)
        except ValueError:
            raise _DamagedError(f"tensor {name!r} has the unknown quantisation {kind}") from None
        elements = math.prod(shape)
        block_elements, block_bytes = GGML_QUANT_SIZES[type]
        if not 0 < elements <= _MAX_ELEMENTS or shape[-1] % block_elements:
            raise _DamagedError(f"tensor {name!r} has the shape {list(shape)}, impossible as {type.name}")
        size = elements // block_elements * block_bytes
        if offset % alignment:
            raise _DamagedError(f"tensor {name!r} begins at byte {offset}, which is not aligned")
        if begin + offset + size > len(self._content):
            raise _DamagedError(
                f"its weights reach beyond its end at byte {len(self._content)}: {name!r} ends at byte "
                f"{begin + offset + size}"
            )
        return Tensor(name, self._file, shape, type, begin + offset, size)

    def _count(self, what: str, shortest: int = _SHORTEST) -> int:
        """Read how many items follow, each of at least ``shortest`` bytes."""
        count: int = self._number(_U64)
        if count * shortest > len(self._content) - self._position:
            raise _DamagedError(f"it claims {count} {what}, more than it has bytes for")
        return count

    def _string(self) -> str:
        return self._bytes(self._number(_U64)).decode("utf-8", "replace")

    def _strings(self, count: int) -> list[str]:
        """Read as many strings, without a call for each: a vocabulary has hundreds of thousands."""
        content, position, size = self._content, self._position, len(self._content)
        length_of, prefix, strings = _U64.unpack_from, _U64.size, list[str]()
        for _ in range(count):
            begin = position + prefix
            if begin > size:
                raise _DamagedError(_ENDS)
            position = begin + length_of(content, position)[0]
            if position > size:
                raise _DamagedError(_ENDS)
            strings.append(content[begin:position].decode("utf-8", "replace"))
        self._position = position
        return strings

    def _number(self, layout: struct.Struct) -> Any:
        return layout.unpack(self._bytes(layout.size))[0]

    def _scalar(self, kind: int) -> struct.Struct:
        if kind not in _SCALARS:
            raise _DamagedError(f"a value has the unknown type {kind}")
        return _SCALARS[kind]

    def _bytes(self, length: int) -> bytes:
        end = self._position + length
        if end > len(self._content):
            raise _DamagedError(_ENDS)
        found = self._content[self._position : end]
        self._position = end
        return found


def _refuse_overlaps(tensors: tuple[Tensor, ...]) -> None:
    names = {tensor.name for tensor in tensors}
    if len(names) < len(tensors):
        raise _DamagedError("two of its tensors have one name")
    ordered = sorted(tensors, key=lambda tensor: tensor.offset)
    for before, after in itertools.pairwise(ordered):
        if before.offset + before.size > after.offset:
            raise _DamagedError(f"tensors {before.name!r} and {after.name!r} overlap")


@dataclass(frozen=True, slots=True)
class Source:
    """A model in one or several GGUF files."""

    name: str
    headers: tuple[Header, ...]

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata of the first file, which describe the model."""
        return self.headers[0].metadata

    def tensors(self) -> dict[str, Tensor]:
        """Return the tensors of all files by name.

        Raises:
            ModelFormatError: two files have a tensor of one name.
        """
        found: dict[str, Tensor] = {}
        for header in self.headers:
            for tensor in header.tensors:
                if tensor.name in found:
                    raise ModelFormatError(
                        f"two of its files have a tensor {tensor.name!r}. Download all of them again."
                    )
                found[tensor.name] = tensor
        return found


def read_source(file: Path) -> Source:
    """Return the model of which ``file`` is the only file, or any of several.

    Raises:
        ModelFormatError: a file is damaged, or one of several is missing.
    """
    header = read_header(file)
    count = header.metadata.get("split.count", 1)
    if not isinstance(count, int) or count <= 1:
        return Source(file.stem, (header,))
    named = _SPLIT.fullmatch(file.stem)
    if named is None or count > _MAX_PARTS or int(named["count"]) != count:
        raise ModelFormatError(
            f"{file} is one of {count} files of a model, but is not named like one. Give it the name it was "
            f"published with: NAME-00001-of-{count:05}.gguf."
        )
    parts = [
        file.with_name(f"{named['stem']}-{number:05}-of-{count:05}{file.suffix}")
        for number in range(1, count + 1)
    ]
    missing = [part.name for part in parts if not part.is_file()]
    if missing:
        raise ModelFormatError(
            f"{file} is one of {count} files of a model; missing in {file.parent}: {', '.join(missing[:3])}"
            f"{', …' if len(missing) > 3 else ''}. Download all of them to one folder."
        )
    return Source(named["stem"], tuple(header if part == file else read_header(part) for part in parts))
