"""Disks that fail, and the contents of stores."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from io import FileIO
from pathlib import Path

from agentrt.errors import ChunkDamagedError
from agentrt.runtime.kv.store.chunks import Chunk
from agentrt.runtime.kv.store.disk import Disk
from agentrt.runtime.kv.store.store import ContextStore

FINGERPRINT = b"a model"


class CrashError(BaseException):
    """The process was killed."""


class FaultyDisk(Disk):
    """A disk whose step number ``fail_at`` raises an error; none by default.

    A write is several steps: it fails with nothing, one byte, half or all of the content written.
    """

    def __init__(self, fail_at: int = -1, error: Callable[[], BaseException] = CrashError) -> None:
        self.steps = 0
        self._fail_at = fail_at
        self._error = error

    def write(self, stream: FileIO, content: bytes) -> None:
        for written in (0, 1, len(content) // 2, len(content)):
            if self._fail_at == self.steps:
                super().write(stream, content[:written])
            self._step()
        super().write(stream, content)

    def sync(self, stream: FileIO) -> None:
        self._step()
        super().sync(stream)

    def cut(self, stream: FileIO, length: int) -> None:
        self._step()
        super().cut(stream, length)

    def rename(self, file: Path, target: Path) -> None:
        self._step()
        super().rename(file, target)

    def remove(self, file: Path) -> None:
        self._step()
        super().remove(file)

    def sync_folder(self, folder: Path) -> None:
        self._step()
        super().sync_folder(folder)

    def _step(self) -> None:
        self.steps += 1
        if self.steps - 1 == self._fail_at:
            raise self._error()


class KilledDisk(FaultyDisk):
    """The disk of a process that is killed at a step: no later step happens."""

    def _step(self) -> None:
        if 0 <= self._fail_at < self.steps:
            raise CrashError
        super()._step()


class FullDisk(Disk):
    """A disk on which some bytes are left; removing files frees theirs."""

    def __init__(self, left: int, code: int = errno.ENOSPC) -> None:
        self.left = left
        self._code = code

    def write(self, stream: FileIO, content: bytes) -> None:
        fitting = content[: max(0, self.left)]
        super().write(stream, fitting)
        self.left -= len(fitting)
        if len(fitting) < len(content):
            raise OSError(self._code, os.strerror(self._code))

    def cut(self, stream: FileIO, length: int) -> None:
        before = os.fstat(stream.fileno()).st_size
        super().cut(stream, length)
        self.left += before - length

    def remove(self, file: Path) -> None:
        freed = file.stat().st_size if file.exists() else 0
        super().remove(file)
        self.left += freed


def chunk(number: int, size: int = 20, level: int = 0) -> Chunk:
    """Return a chunk whose content follows from its number."""
    return Chunk(number.to_bytes(16, "big"), level, number / 2, bytes([number % 256]) * size)


Contents = dict[str, dict[str, tuple[list[bytes], set[bytes]]]]
"""App -> id -> text, and the hashes of the chunks that the context uses and that can be read."""


def contents(store: ContextStore, apps: tuple[str, ...] = ("notes", "mail")) -> Contents:
    """Read everything; each chunk must be the one of its number."""
    return {
        app: {
            context.id: (context.read_text(), readable(store, app, context.block_hashes))
            for context in store.contexts(app)
        }
        for app in apps
    }


def readable(store: ContextStore, app: str, block_hashes: list[bytes]) -> set[bytes]:
    """Return those of the hashes whose chunks can be read."""
    found = set()
    for block_hash in block_hashes:
        location = store.locate(app, block_hash)
        if location is not None:
            try:
                read = store.read(location)
            except ChunkDamagedError:
                continue
            assert read == chunk(int.from_bytes(block_hash, "big"), len(read.payload), read.level)
            found.add(block_hash)
    return found


class PowerFailureDisk(KilledDisk):
    """A disk that has, after a power failure, only the contents and names that were synced."""

    def __init__(self, folder: Path, fail_at: int = -1) -> None:
        super().__init__(fail_at)
        self._folder = folder
        self._contents: dict[int, bytes] = {}
        self._names: dict[str, int] = {}

    def sync(self, stream: FileIO) -> None:
        super().sync(stream)
        at = stream.tell()
        stream.seek(0)
        self._contents[os.fstat(stream.fileno()).st_ino] = stream.readall()
        stream.seek(at)

    def rename(self, file: Path, target: Path) -> None:
        self._keep(target)
        super().rename(file, target)

    def remove(self, file: Path) -> None:
        self._keep(file)
        super().remove(file)

    def sync_folder(self, folder: Path) -> None:
        super().sync_folder(folder)
        self._names = {file.name: file.stat().st_ino for file in folder.iterdir()}

    def fail(self) -> None:
        """Bring the folder into the state that the failure leaves."""
        for file in self._folder.iterdir():
            file.unlink()
        for name, number in self._names.items():
            (self._folder / name).write_bytes(self._contents.get(number, b""))

    def _keep(self, file: Path) -> None:
        """Keep the content of a file whose name is going, as its number may be used again."""
        if file.exists():
            number, kept = file.stat().st_ino, -len(self._contents) - 1
            self._contents[kept] = self._contents.pop(number, b"")
            self._names = {name: kept if each == number else each for name, each in self._names.items()}
