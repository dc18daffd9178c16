"""The format of files of records.

::

    file     mark (16 bytes), version (u16), kind (u8), encrypted (u8), header bytes (u32),
             file number (16 bytes), sealed header (JSON), checksum of all of this (4 bytes); then records
    record   kind (u8, then 3 zeros), meta bytes (u32), payload bytes (u64), checksum of these (4 bytes),
             sealed meta, payload

Numbers are little-endian. The kind of a record says what its meta and payload are, and how the payload is
sealed. Files grow at their end, and a process that is killed meanwhile leaves a torn record there, which is
left out. A file that is wrong anywhere before its end is refused. Later versions begin with the same line.
"""

from __future__ import annotations

import enum
import json
import secrets
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Final, Self

from .sealing import Seal, SealBrokenError, checksum, seal_of

_MARK: Final = b"agentrt context\n"
_VERSION: Final = 1
_FILE: Final = struct.Struct("<16sHBBI16s")
_RECORD: Final = struct.Struct("<BxxxIQ")
_CHECKSUM_BYTES: Final = 4
_RECORD_BYTES: Final = _RECORD.size + _CHECKSUM_BYTES
_FILE_NUMBER_BYTES: Final = 16


class FileKind(enum.IntEnum):
    """What a file is."""

    STORE = 1
    TEXT = 2
    CHUNKS = 3


class RefusedError(Exception):
    """Why a file is not used: the rest of a sentence that begins with "it"."""


class OtherVersionError(RefusedError):
    """The file is of another version of agentrt."""


class OtherKeyError(RefusedError):
    """The file is whole, but was written with another key, or one of both has none."""


@dataclass(frozen=True, slots=True)
class NewRecord:
    """A record to be written."""

    kind: int
    meta: bytes
    """Short; read when the file is opened."""
    payload: Sequence[bytes] = ()
    """Parts that are sealed already; read when they are needed."""

    @property
    def payload_bytes(self) -> int:
        """The length of all parts together."""
        return sum(map(len, self.payload))


@dataclass(frozen=True, slots=True)
class Record:
    """A record of a file."""

    kind: int
    meta: bytes
    payload_offset: int
    payload_bytes: int


@dataclass(frozen=True, slots=True)
class FileStart:
    """What a file begins with, and what its records are sealed by."""

    header: Mapping[str, Any]
    content: bytes
    number: bytes
    seal: Seal

    @classmethod
    def new(cls, kind: FileKind, header: Mapping[str, Any], key: bytes | None) -> Self:
        """Return the start of a new file, with a new file number.

        Raises:
            TypeError, ValueError: the header cannot be written as JSON.
        """
        text = json.dumps(header, allow_nan=False).encode("ascii")
        number = secrets.token_bytes(_FILE_NUMBER_BYTES)
        seal = seal_of(key, number)
        fixed = _FILE.pack(_MARK, _VERSION, kind, key is not None, len(text) + seal.overhead, number)
        content = fixed + seal.seal(text, fixed)
        return cls(json.loads(text), content + checksum(content), number, seal)

    @classmethod
    def read(cls, stream: BinaryIO, kind: FileKind, key: bytes | None) -> Self:
        """Read the start of a file, up to its first record.

        Raises:
            RefusedError: it is no file of this kind, damaged, or of another version or key.
        """
        fixed = stream.read(_FILE.size)
        if len(fixed) < _FILE.size or not fixed.startswith(_MARK):
            raise RefusedError("is no file of a context, or is damaged")
        _, version, found_kind, encrypted, body_bytes, number = _FILE.unpack(fixed)
        body, check = stream.read(body_bytes), stream.read(_CHECKSUM_BYTES)
        if check != checksum(fixed, body):
            raise RefusedError("is damaged in its header")
        if version != _VERSION:
            raise OtherVersionError(f"is of version {version} of the format, not {_VERSION}")
        if found_kind != kind:
            raise RefusedError("is a file of another kind")
        if encrypted != (key is not None):
            raise OtherKeyError("is encrypted, and there is no key" if encrypted else "is not encrypted")
        seal = seal_of(key, number)
        try:
            header = json.loads(seal.unseal(body, fixed))
        except SealBrokenError:
            raise OtherKeyError("is encrypted with another key") from None
        return cls(header, fixed + body + check, number, seal)

    def cost(self, meta_bytes: int, payload_bytes: int) -> int:
        """Return the bytes of a record of so much meta, before it is sealed, and so much payload."""
        return _RECORD_BYTES + meta_bytes + self.seal.overhead + payload_bytes

    def pack(self, records: Sequence[NewRecord], offset: int) -> tuple[bytes, list[Record]]:
        """Return the content of ``records`` from ``offset`` on, and the records as they will be read."""
        parts: list[bytes] = []
        packed = []
        for record in records:
            meta_bytes = len(record.meta) + self.seal.overhead
            fixed = _RECORD.pack(record.kind, meta_bytes, record.payload_bytes)
            place = _place(offset, fixed)
            parts += [fixed, checksum(self.number, place), self.seal.seal(record.meta, place)]
            parts += record.payload
            payload_offset = offset + _RECORD_BYTES + meta_bytes
            packed.append(Record(record.kind, record.meta, payload_offset, record.payload_bytes))
            offset = payload_offset + record.payload_bytes
        return b"".join(parts), packed

    def scan(self, stream: BinaryIO, size: int) -> tuple[list[Record], int]:
        """Return the complete records of a file of ``size`` bytes, and where the last of them ends.

        Raises:
            RefusedError: a record before the end is damaged.
        """
        records: list[Record] = []
        offset = len(self.content)
        while offset + _RECORD_BYTES <= size:
            stream.seek(offset)
            head = stream.read(_RECORD_BYTES)
            place = _place(offset, head[: _RECORD.size])
            if head[_RECORD.size :] != checksum(self.number, place):
                if not head.strip(b"\0") and _has_only_zeros(stream):
                    break  # some file systems make a file longer before they write its end
                raise RefusedError(f"is damaged at byte {offset}")
            kind, meta_bytes, payload_bytes = _RECORD.unpack(head[: _RECORD.size])
            payload_offset = offset + _RECORD_BYTES + meta_bytes
            if payload_offset + payload_bytes > size:
                break
            try:
                meta = self.seal.unseal(stream.read(meta_bytes), place)
            except SealBrokenError:
                raise RefusedError(f"is damaged at byte {offset}") from None
            records.append(Record(kind, meta, payload_offset, payload_bytes))
            offset = payload_offset + payload_bytes
        return records, offset


def _place(offset: int, fixed: bytes) -> bytes:
    """Return what the parts of a record are sealed for: its offset, kind and lengths."""
    return offset.to_bytes(8, "little") + fixed


def _has_only_zeros(stream: BinaryIO) -> bool:
    while piece := stream.read(1 << 20):
        if piece.strip(b"\0"):
            return False
    return True
