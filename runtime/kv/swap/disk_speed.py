"""T_IO, measured: how long reads of several sizes take from the disk of a folder (LLMS §3.3)."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import IO, Final

from .costs import LinearCost

_SIZES: Final = (2**16, 2**18, 2**20, 2**21)
_REPEATS: Final = 2


def measure_reads(folder: Path) -> LinearCost | None:
    """Return the seconds of a read and per byte; None if the folder cannot be written.

    Takes some ten milliseconds and a temporary file of 7 MiB. The reads come from the device, where the
    system can be told to forget what it has cached of a file; elsewhere from memory, and the loads correct
    it.
    """
    try:
        with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
            file.write(os.urandom(_REPEATS * sum(_SIZES)))
            os.fsync(file.fileno())
            file.seek(0)
            if hasattr(os, "posix_fadvise"):
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
            return LinearCost.fit([_timed_read(file, size) for size in _SIZES * _REPEATS])
    except OSError:
        return None


def _timed_read(file: IO[bytes], size: int) -> tuple[float, float]:
    began = time.perf_counter()
    file.read(size)
    return size, time.perf_counter() - began
