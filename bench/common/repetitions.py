"""Repetitions of a measurement: their seeds, and the spread of what they measured."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Seeds:
    """The seeds of a bench's repetitions, one each: ``count`` of them from ``first`` on.

    ``count`` is None where the user has named none; the bench then takes as many as it is documented to.
    """

    count: int | None = None
    first: int = 0

    def take(self, default: int) -> range:
        """Return the seeds, ``default`` of them if no count was given."""
        return range(self.first, self.first + (default if self.count is None else self.count))


def spread_columns(name: str) -> tuple[str, str, str]:
    """Return the columns of a measurement in a table: its median, minimum and maximum."""
    return name, f"{name} min", f"{name} max"


def spread_cells(values: Sequence[float], digits: int) -> tuple[float, float, float]:
    """Return median, minimum and maximum of one or more ``values``, rounded to ``digits`` digits."""
    return (
        round(statistics.median(values), digits),
        round(min(values), digits),
        round(max(values), digits),
    )
