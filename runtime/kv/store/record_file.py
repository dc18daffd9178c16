"""Files of records on disk."""

from __future__ import annotations

import io
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Any, Final, Self

from .disk import Disk
from .record_format import FileKind, FileStart, NewRecord, Record, RefusedError
from .sealing import Seal

logger = logging.getLogger(__name__)

_GAP_BYTES: Final = 2**14
"""Bytes between two parts that are read along with them, such as the beginnings of records."""


class RecordFile:
    """One file of records. Its owner holds a lock while it writes; anybody may read meanwhile."""

    def __init__(self, disk: Disk, path: Path, start: FileStart, size: int) -> None:
        """Use :meth:`create` or :meth:`open`."""
        self._disk = disk
        self._start = start
        self.path: Final = path
        self.size = size
        """Bytes up to the end of the last record."""

    @classmethod
    def create(cls, disk: Disk, path: Path, start: FileStart) -> Self:
        """Create ``path``, of which there is no file yet, without records.

        Raises:
            OSError: it cannot be written; there is no such file then.
        """
        disk.put(path, start.content)
        try:
            disk.sync_folder(path.parent)
        except BaseException:
            with suppress(OSError):
                disk.remove(path)
            raise
        return cls(disk, path, start, len(start.content))

    @classmethod
    def replace(cls, old: Self, start: FileStart, records: Sequence[NewRecord]) -> tuple[Self, list[Record]]:
        """Write a file of ``records`` in place of ``old``, and return it with its records.

        Raises:
            OSError: it cannot be written; the old one is still there.
        """
        content, packed = start.pack(records, len(start.content))
        old._disk.put(old.path, start.content + content)
        return cls(old._disk, old.path, start, len(start.content) + len(content)), packed

    @classmethod
    def open(cls, disk: Disk, path: Path, kind: FileKind, key: bytes | None) -> tuple[Self, list[Record]]:
        """Return the file and its records, of which no payload is read. A torn end is cut off.

        Raises:
            RefusedError: it is no file of this kind, damaged, or of another version or key.
            OSError: it cannot be read.
        """
        with disk.open(path) as raw:
            size = os.fstat(raw.fileno()).st_size
            stream = io.BufferedReader(raw)
            start = FileStart.read(stream, kind, key)
            records, end = start.scan(stream, size)
        if end < size:
            logger.info("%s ends with a record that was never completed. It is cut off.", path)
            with disk.open(path, os.O_RDWR) as raw:
                disk.cut(raw, end)
        return cls(disk, path, start, end), records

    @property
    def header(self) -> Mapping[str, Any]:
        """What the file was created with."""
        return self._start.header

    @property
    def seal(self) -> Seal:
        """What seals payloads."""
        return self._start.seal

    def append(self, records: Sequence[NewRecord]) -> list[Record]:
        """Append ``records``, all or none of them.

        Raises:
            RefusedError: the file is gone or has lost its end since it was opened.
            OSError: it cannot be written; it ends where it ended before.
        """
        content, packed = self._start.pack(records, self.size)
        with self._open(os.O_RDWR) as stream:
            if stream.seek(0, os.SEEK_END) < self.size:
                raise RefusedError("has lost its end")
            try:
                self._disk.cut(stream, self.size)  # what an append that failed may have left
                stream.seek(self.size)
                self._disk.write(stream, content)
                self._disk.sync(stream)
            except BaseException:
                with suppress(OSError):
                    self._disk.cut(stream, self.size)
                raise
        self.size += len(content)
        return packed

    def read(
        self, parts: Sequence[tuple[int, int]], following: Sequence[tuple[int, int]] = ()
    ) -> list[memoryview]:
        """Return each of ``parts``, offset and length, as it is. Neighbours are read together.

        ``following`` are parts that are read soon: the device begins with them behind these.

        Raises:
            RefusedError: the file is gone or has lost its end.
            OSError: it cannot be read.
        """
        found: dict[int, memoryview] = {}
        with self._open() as stream:
            for run in _runs(following):
                begin, end = following[run[0]][0], sum(following[run[-1]])
                self._disk.expect(stream, begin, end - begin)
            for run in _runs(parts):
                begin, end = parts[run[0]][0], sum(parts[run[-1]])
                stream.seek(begin)
                content = memoryview(stream.read(end - begin) or b"")
                if len(content) < end - begin:
                    raise RefusedError("has lost its end")
                for place in run:
                    offset, length = parts[place]
                    found[place] = content[offset - begin : offset - begin + length]
        return [found[place] for place in range(len(parts))]

    def cost(self, meta_bytes: int, payload_bytes: int) -> int:
        """Return the bytes that a record of so much meta and sealed payload takes."""
        return self._start.cost(meta_bytes, payload_bytes)

    def _open(self, flags: int = os.O_RDONLY) -> FileIO:
        try:
            return self._disk.open(self.path, flags)
        except FileNotFoundError:
            raise RefusedError("is gone") from None


def _runs(parts: Sequence[tuple[int, int]]) -> Iterator[list[int]]:
    """Yield the places of parts that lie side by side in a file, or nearly so, in the order of the file."""
    run: list[int] = []
    for place in sorted(range(len(parts)), key=parts.__getitem__):
        if run and parts[place][0] - sum(parts[run[-1]]) > _GAP_BYTES:
            yield run
            run = []
        run.append(place)
    if run:
        yield run
