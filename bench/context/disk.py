"""Reads from the device: page caches that are dropped, speeds that are seen, disks that are slower."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from agentrt.runtime.kv.store.chunk_files import Disk, Extent

_PIECE: Final = 2**20
_MEMORY_FOLDER: Final = Path("/dev/shm")


def drop_page_cache(folder: Path) -> bool:
    """Write all files below ``folder`` to the device and forget them in memory, where the system can do that.

    On systems without ``posix_fadvise`` (macOS, Windows) reads may come from memory.
    """
    if not hasattr(os, "posix_fadvise"):
        return False
    for path in folder.rglob("*"):
        # Files that a runtime is writing are renamed when they are complete.
        with suppress(FileNotFoundError):
            if path.is_file():
                with path.open("rb") as file:
                    os.fsync(file.fileno())
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return True


def read_speed(folder: Path) -> float | None:
    """Return the bytes a second at which the files below ``folder`` are read from the device.

    None if there is less than a mebibyte.
    """
    drop_page_cache(folder)
    paths = [path for path in folder.rglob("*") if path.is_file()]
    read, begun = 0, time.perf_counter()
    for path in paths:
        with path.open("rb", buffering=0) as file:
            while piece := file.read(_PIECE):
                read += len(piece)
    seconds = time.perf_counter() - begun
    return read / seconds if read >= _PIECE else None


@contextmanager
def fast_folder() -> Iterator[Path]:
    """Yield a temporary folder in memory where the system has such, so that its disk is not the limit."""
    memory = _MEMORY_FOLDER if os.access(_MEMORY_FOLDER, os.W_OK) else None
    with TemporaryDirectory(dir=memory, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


class SlowDisk(Disk):
    """A disk whose reads and writes take as long as their bytes do at a given speed, one at a time."""

    def __init__(
        self,
        bytes_a_second: float,
        clock: Callable[[], float] = time.perf_counter,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Take ``bytes_a_second`` for reads and for writes."""
        self._bytes_a_second = bytes_a_second
        self._clock = clock
        self._sleep = sleep
        self._device = threading.Lock()

    def read(self, path: Path, extent: Extent, soon: Extent | None = None) -> bytes:
        """See :meth:`Disk.read`. Nothing is read ahead: a read takes as long as its bytes do."""
        with self._transfer() as count:
            content = super().read(path, extent)
            count(len(content))
        return content

    def write(self, path: Path, content: bytes, *, synced: bool = False) -> None:
        with self._transfer() as count:
            super().write(path, content, synced=synced)
            count(len(content))

    @contextmanager
    def _transfer(self) -> Iterator[Callable[[int], None]]:
        """Make the block take as long as the bytes that it counts."""
        with self._device:
            begun, counted = self._clock(), list[int]()
            yield counted.append
            left = begun + sum(counted) / self._bytes_a_second - self._clock()
            if left > 0:
                self._sleep(left)
