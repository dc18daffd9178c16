"""Figures of this machine: cores, memory, read bandwidth as STREAM measures it, and power by RAPL."""

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
_POWERCAP: Final = Path("/sys/class/powercap")


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


class PowerMeter:
    """Energy used by the processor packages, from Linux' RAPL counters."""

    def __init__(self, counters: list[Path]) -> None:
        """``counters`` are folders with ``energy_uj`` and ``max_energy_range_uj``."""
        self._counters = [
            (folder / "energy_uj", _number(folder / "max_energy_range_uj")) for folder in counters
        ]
        self._last = [_number(counter) for counter, _ in self._counters]
        self._joules = 0.0

    @classmethod
    def find(cls, powercap: Path = _POWERCAP) -> PowerMeter | None:
        """Return the meter of this machine; None if it has none, or if only root may read it."""
        packages = sorted(powercap.glob("intel-rapl:[0-9]*"))  # AMD's have the same names
        packages = [folder for folder in packages if folder.name.count(":") == 1]
        try:
            return cls(packages) if packages else None
        except OSError:
            return None

    def joules(self) -> float:
        """Return the energy used since the meter was created, in joules."""
        for at, (counter, span) in enumerate(self._counters):
            now = _number(counter)
            self._joules += ((now - self._last[at]) % (span + 1)) / 1e6
            self._last[at] = now
        return self._joules


def _number(file: Path) -> int:
    return int(file.read_text())
