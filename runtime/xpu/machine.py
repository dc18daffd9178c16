"""Figures of this machine: cores, memory, and read bandwidth as STREAM measures it."""

from __future__ import annotations

import os
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
