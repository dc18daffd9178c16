"""Growth of a process over time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_WARM_UP_SHARE: Final = 1 / 3
_HOUR_S: Final = 3600


@dataclass(frozen=True, slots=True)
class Sample:
    """What a server holds at one moment."""

    seconds: float
    rss_mb: float
    descriptors: int
    threads: int
    blocks: int


def growth_per_hour(samples: Sequence[Sample]) -> float:
    """Return MB per hour by which the resident memory grows after the first third (least squares)."""
    begin = _WARM_UP_SHARE * samples[-1].seconds
    later = [(sample.seconds, sample.rss_mb) for sample in samples if sample.seconds >= begin]
    middle_s = sum(seconds for seconds, _ in later) / len(later)
    middle_mb = sum(rss_mb for _, rss_mb in later) / len(later)
    spread = sum((seconds - middle_s) ** 2 for seconds, _ in later)
    together = sum((seconds - middle_s) * (rss_mb - middle_mb) for seconds, rss_mb in later)
    return _HOUR_S * together / spread if spread else 0.0
