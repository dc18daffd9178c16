"""Measured numbers with their 90 % intervals: what every figure of a report is."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from pydantic import BaseModel, ConfigDict, FiniteFloat

T = TypeVar("T")

_LEVEL: Final = 0.9
_Z: Final = statistics.NormalDist().inv_cdf(0.5 + _LEVEL / 2)
_RESAMPLES: Final = 1000
_BEYOND: Final = 1.0
"""The least number of samples expected beyond a quantile that is reported."""


class Estimate(BaseModel):
    """A number with its 90 % interval.

    The interval is of what was repeated: seeds, prompts, tasks or rounds. It says how much another run on the
    same machine would differ, and nothing about another machine.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    value: FiniteFloat
    low: FiniteFloat | None = None
    """Lower end of the interval; None where one sample has none."""
    high: FiniteFloat | None = None
    samples: int = 1
    """How many were measured; 0 for what was counted or computed and is the same in each run."""

    @property
    def is_exact(self) -> bool:
        return self.samples == 0

    @property
    def has_interval(self) -> bool:
        return self.is_exact or self.low is not None

    def interval(self, shown: Callable[[float], str]) -> str:
        """Return the interval in words; ``shown`` writes a number."""
        if self.is_exact:
            return "exact"
        if self.low is None or self.high is None:
            return "one run"
        return f"{shown(self.low)} to {shown(self.high)}"


def exact(value: float) -> Estimate:
    """Return a number that each run counts or computes alike: in virtual time, or of sizes."""
    return Estimate(value=value, low=value, high=value, samples=0)


def median(samples: Sequence[float]) -> Estimate:
    """Return the median. For a ratio of two sides give the ratio within each repetition.

    Raises:
        ValueError: there are no samples.
    """
    return bootstrap(samples, statistics.median)


def mean(samples: Sequence[float]) -> Estimate:
    """Return the mean.

    Raises:
        ValueError: there are no samples.
    """
    return bootstrap(samples, statistics.fmean)


def quantile(samples: Sequence[float], share: float) -> Estimate | None:
    """Return the quantile (0.95 for p95); None of too few samples to have one: 20 for p95, 100 for p99."""
    if len(samples) * min(share, 1 - share) < _BEYOND - 1e-9:
        return None

    def statistic(drawn: Sequence[float]) -> float:
        return sorted(drawn)[min(len(drawn) - 1, math.ceil(share * len(drawn)) - 1)]

    return bootstrap(samples, statistic)


def share(part: int, whole: int) -> Estimate:
    """Return ``part`` by ``whole``, of equal and independent tries, with Wilson's interval.

    Raises:
        ValueError: there were no tries.
    """
    if not 0 <= part <= whole or whole == 0:
        raise ValueError(f"{part} of {whole} is no share.")
    found, z2 = part / whole, _Z**2 / whole
    middle, half = (found + z2 / 2) / (1 + z2), math.sqrt(found * (1 - found) / whole * _Z**2 + z2**2 / 4)
    half /= 1 + z2
    return Estimate(value=found, low=max(0.0, middle - half), high=min(1.0, middle + half), samples=whole)


def bootstrap(samples: Sequence[T], statistic: Callable[[Sequence[T]], float]) -> Estimate:
    """Return a statistic of samples of any kind; equal samples give the same interval.

    What belongs together is one sample: the requests of a task, both sides of a repetition.

    Raises:
        ValueError: there are no samples.
    """
    if not samples:
        raise ValueError("no samples.")
    found = statistic(samples)
    if len(samples) == 1:
        return Estimate(value=found)
    drawn = random.Random(0)
    again = sorted(statistic(drawn.choices(samples, k=len(samples))) for _ in range(_RESAMPLES))
    beyond = round(_RESAMPLES * (1 - _LEVEL) / 2)
    return Estimate(value=found, low=again[beyond], high=again[-1 - beyond], samples=len(samples))
