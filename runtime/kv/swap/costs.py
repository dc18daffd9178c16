"""T_re and T_IO: what a chunk costs to recompute and to read; which ones are computed instead (LLMS §3.3)."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, Self

_NEWEST_WEIGHT: Final = 0.3
"""Weight of the newest observation in the geometric mean: one read that had to wait moves it little."""
_LARGEST_FACTOR: Final = 1e6
_READ_BYTES: Final = (2**16, 2**18, 2**20, 2**21)
_REPEATS: Final = 2
_WORTH_IT: Final = 0.9
"""The largest share of the time of reading everything at which some chunks are computed. Reads are checked
and decoded on the processor that computes, and a batch that outlasts the reads is not interrupted. Eq. 4
knows neither: where it saves less than a tenth, nothing is saved."""


@dataclass(frozen=True, slots=True)
class LinearCost:
    """Seconds as ``fixed_s`` for each operation and ``per_unit_s`` for each unit of its size."""

    fixed_s: float
    per_unit_s: float

    def seconds(self, units: float, operations: int = 1) -> float:
        """Return the seconds of ``operations`` operations of ``units`` units together; 0 for none."""
        return operations * self.fixed_s + units * self.per_unit_s if operations else 0.0

    def times(self, factor: float) -> LinearCost:
        """Return the cost of a device that is ``factor`` times as slow."""
        return LinearCost(self.fixed_s * factor, self.per_unit_s * factor)

    @classmethod
    def fit(cls, points: Sequence[tuple[float, float]]) -> Self:
        """Return the line of least squares through ``(units, seconds)`` points; neither term is negative.

        Seconds are weighted by their inverse, so that a small operation counts as much as a large one.
        """
        weights = [1 / max(seconds, 1e-9) ** 2 for _, seconds in points]
        total = sum(weights)
        mean_units = sum(w * units for w, (units, _) in zip(weights, points, strict=True)) / total
        mean_s = sum(w * seconds for w, (_, seconds) in zip(weights, points, strict=True)) / total
        spread = sum(w * (units - mean_units) ** 2 for w, (units, _) in zip(weights, points, strict=True))
        common = sum(
            w * (units - mean_units) * (seconds - mean_s)
            for w, (units, seconds) in zip(weights, points, strict=True)
        )
        slope = max(0.0, common / spread) if spread else 0.0
        if mean_s < slope * mean_units:  # through the origin
            return cls(0.0, mean_s / mean_units)
        return cls(mean_s - slope * mean_units, slope)


class RefinedCost:
    """A cost that was measured once and is corrected by a factor while it is used. Not thread-safe."""

    def __init__(self, measured: LinearCost) -> None:
        """Begin with ``measured``."""
        self._measured = measured
        self._factor = 1.0

    @property
    def present(self) -> LinearCost:
        """The measured cost times the running mean of observed ÷ predicted seconds."""
        return self._measured.times(self._factor)

    def measure_again(self, measured: LinearCost) -> None:
        """Replace the measurement; earlier observations do not count any more."""
        self._measured, self._factor = measured, 1.0

    def observe(self, units: float, operations: int, seconds: float) -> None:
        """Note what ``operations`` operations took."""
        predicted = self._measured.seconds(units, operations)
        if predicted > 0:
            factor = min(max(seconds / predicted, 1 / _LARGEST_FACTOR), _LARGEST_FACTOR)
            self._factor *= (factor / self._factor) ** _NEWEST_WEIGHT


def measure_reads(folder: Path) -> LinearCost | None:
    """Return T_IO of a folder: the seconds of a read and per byte; None if it cannot be written.

    Takes some ten milliseconds and a temporary file of 7 MiB. The reads come from the device, where the
    system can be told to forget what it has cached of a file; elsewhere from memory, and the loads correct
    it.
    """
    try:
        with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
            file.write(os.urandom(_REPEATS * sum(_READ_BYTES)))
            os.fsync(file.fileno())
            file.seek(0)
            if hasattr(os, "posix_fadvise"):
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
            return LinearCost.fit([_timed_read(file, size) for size in _READ_BYTES * _REPEATS])
    except OSError:
        return None


def _timed_read(file: IO[bytes], size: int) -> tuple[float, float]:
    began = time.perf_counter()
    file.read(size)
    return size, time.perf_counter() - began


def recomputed_chunks(
    io_bytes: Sequence[int], recompute: LinearCost, io: LinearCost, *, most: int | None = None
) -> int:
    """Solve Eq. 4: return how many chunks to compute, from the first on, while the others are read.

    ``io_bytes`` has the bytes of each chunk, which depend on its level of compression; 0 for one in memory.
    ``recompute`` is T_re by chunks, ``io`` is T_IO by bytes, and ``most`` bounds the result. The larger of
    both times is least at the result; at equal times the fewest chunks are computed, and none where that
    saves less than a tenth of the time.

    T_re depends on the number of chunks only, so that any of them could be chosen. Chosen from the front,
    while reading begins at the back, both meet wherever they are when they meet: a disk that turns out slower
    needs no other plan.
    """
    left_bytes, left = sum(io_bytes), len(io_bytes)
    reading = least = io.seconds(left_bytes, left)
    chosen = 0
    for chunks in range(1, left + 1):
        left_bytes -= io_bytes[chunks - 1]
        computing = recompute.seconds(chunks)
        if computing >= least:
            break
        delay = max(computing, io.seconds(left_bytes, left - chunks))
        if delay < least:
            least, chosen = delay, chunks
    if least > _WORTH_IT * reading:
        return 0
    return chosen if most is None else min(chosen, most)
