"""Energy of the processor's packages, by the counters that Linux has for them (RAPL)."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

T = TypeVar("T")
_POWERCAP: Final = Path("/sys/class/powercap")


@dataclass(frozen=True, slots=True)
class Energy:
    """What all packages used together in some time; what other processes cause is part of it."""

    joules: float
    seconds: float

    @property
    def watts(self) -> float:
        """The mean."""
        return self.joules / self.seconds


class EnergyMeter:
    """The energy counters of all processor packages, DRAM and other domains left out."""

    def __init__(self, powercap: Path = _POWERCAP) -> None:
        """Find the counters in a folder like ``/sys/class/powercap``."""
        domains = sorted(powercap.glob("intel-rapl:*"))  # AMD's processors have these names, too
        self._packages = [each for each in domains if _text(each / "name").startswith("package")]
        self.absent = "" if self._packages else f"{powercap} has no package of intel-rapl"
        """Why nothing can be measured; empty if it can be."""
        try:
            self._read()
            self._ranges = [int(_text(each / "max_energy_range_uj")) for each in self._packages]
        except OSError as error:  # mostly only root may read them
            self.absent = f"{error.filename} cannot be read ({error.strerror})"

    def measure(self, work: Callable[[], T]) -> tuple[T, Energy]:
        """Return what ``work`` returns, and what it used. It must take less than a counter takes to wrap.

        Raises:
            OSError: a counter cannot be read, as :attr:`absent` says.
        """
        before, began = self._read(), time.perf_counter()
        done = work()
        seconds, after = time.perf_counter() - began, self._read()
        used = 0
        for first, last, range_uj in zip(before, after, self._ranges, strict=True):
            used += last - first if last >= first else last - first + range_uj
        return done, Energy(used / 1e6, seconds)

    def _read(self) -> list[int]:
        return [int(_text(each / "energy_uj")) for each in self._packages]


def _text(file: Path) -> str:
    return file.read_text(encoding="ascii").strip()
