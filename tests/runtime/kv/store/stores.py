"""Contents of the stores of these tests, and disks that fail."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

from agentrt.errors import ChunkDamagedError
from agentrt.runtime.kv.store.chunk_files import Chunk, Disk
from agentrt.runtime.kv.store.store import ContextStore

FINGERPRINT = b"a model"


def chunk(number: int, size: int = 20, level: int = 0) -> Chunk:
    """Return a chunk whose content follows from its number."""
    return Chunk(number.to_bytes(16, "big"), level, bytes([number % 256]) * size)


def hashes(*numbers: int) -> list[bytes]:
    """Return the hashes of the chunks of these numbers."""
    return [chunk(number).block_hash for number in numbers]


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


class FaultyDisk(Disk):
    """A disk whose step number ``fail_at`` raises an error.

    A write is several steps: it fails with nothing, one byte, half or all of the content written.
    """

    def __init__(self, fail_at: int, error: Callable[[], BaseException]) -> None:
        self.steps = 0
        self._fail_at = fail_at
        self._error = error

    def write(self, path: Path, content: bytes, *, synced: bool = False) -> None:
        for written in (0, 1, len(content) // 2, len(content)):
            if self._fail_at == self.steps and written:
                path.write_bytes(content[:written])
            self._step()
        super().write(path, content)

    def overwrite(self, path: Path, begin: int, content: bytes) -> None:
        self._step()
        super().overwrite(path, begin, content)

    def remove(self, path: Path) -> None:
        self._step()
        super().remove(path)

    def _step(self) -> None:
        self.steps += 1
        if self.steps - 1 == self._fail_at:
            raise self._error()


class FullDisk(Disk):
    """A disk on which some bytes are left for files of chunks; removing them frees theirs."""

    def __init__(self, left: int) -> None:
        self.left = left

    def write(self, path: Path, content: bytes, *, synced: bool = False) -> None:
        written = content[: max(0, self.left)]
        super().write(path, written)
        self.left -= len(written)
        if len(written) < len(content):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def remove(self, path: Path) -> None:
        if path.exists():
            self.left += path.stat().st_size
        super().remove(path)
