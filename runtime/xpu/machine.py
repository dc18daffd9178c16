"""Figures of this machine: cores, memory, read bandwidth as STREAM measures it. Gives memory back to it."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

_BYTES: Final = 256 * 2**20
"""Bytes that are read, more than any CPU cache holds."""
_TRIES: Final = 5
"""Tries of which the best counts."""
_MEMINFO: Final = Path("/proc/meminfo")
_MADV_DONTNEED: Final = 4


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def available_memory() -> int | None:
    """Return the bytes that new allocations can use without swapping; None where the system does not say."""
    try:
        lines = _MEMINFO.read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    kibibytes = next((line.split()[1] for line in lines if line.startswith("MemAvailable:")), None)
    return None if kibibytes is None else int(kibibytes) * 1024


def measure_read_bandwidth() -> float:
    """Measure the bytes per second that all cores together read from memory, in about half a second."""
    threads = usable_cores()
    shares = [np.ones(_BYTES // threads // 4, np.float32) for _ in range(threads)]
    best = 0.0
    for _ in range(_TRIES):
        workers = [threading.Thread(target=_read, args=(share,)) for share in shares]
        started = time.perf_counter()
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        best = max(best, sum(share.nbytes for share in shares) / (time.perf_counter() - started))
    return best


def _read(share: NDArray[np.float32]) -> None:
    share.max()  # numpy's quickest reduction, without the GIL; of integers it is half as fast


def release_file_pages(file: Path) -> None:
    """Drop this process's pages of ``file`` where it is mapped for reading; reading one loads it again.

    Linux only, as :func:`release_free_memory`; elsewhere nothing is done.
    """
    if sys.platform != "linux":
        return
    mapped = os.fsencode(file.resolve())
    libc = ctypes.CDLL(None)
    with open("/proc/self/maps", "rb") as maps:
        for line in maps:
            addresses, permissions, *_, path = line.rstrip(b"\n").split(maxsplit=5)
            if path == mapped and permissions.startswith(b"r--"):
                begin, end = (int(address, 16) for address in addresses.split(b"-"))
                libc.madvise(ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), _MADV_DONTNEED)


def release_free_memory() -> None:
    """Return freed memory that the C library keeps for later allocations. Takes milliseconds."""
    if sys.platform != "linux":
        return
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # only glibc has it
    if trim is not None:
        trim(ctypes.c_size_t(0))
