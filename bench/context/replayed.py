"""The switching latencies of one side on one trace."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .replay import Switch


@dataclass(frozen=True, slots=True)
class Replayed:
    """A trace on one side."""

    side: str
    pattern: str
    contexts: int
    switches: tuple[Switch, ...]

    @property
    def total_s(self) -> float:
        """The switching latencies together."""
        return sum(each.seconds for each in self.switches)

    @property
    def mean_s(self) -> float:
        """The mean switching latency."""
        return self.total_s / len(self.switches)

    @property
    def p95_s(self) -> float:
        """Its 95th percentile."""
        return percentile([each.seconds for each in self.switches], 0.95)


def percentile(values: Iterable[float], share: float) -> float:
    """Return the value below which ``share`` of one or more values lie, linearly interpolated."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])
