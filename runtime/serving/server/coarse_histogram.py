"""A histogram for Prometheus that tells no single value exactly."""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Iterator, Sequence

from prometheus_client.core import HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString


class CoarseHistogram(Collector):
    """Counts of values by bucket, without their sum. For one event loop.

    Prometheus' own histograms have a sum, by which two scrapes tell the exact value that came between them.
    """

    def __init__(self, name: str, help_text: str, labels: Sequence[str], bounds: Sequence[float]) -> None:
        """``bounds`` are the upper bounds of the buckets, ascending; a last one has the greater values."""
        self._name = name
        self._help = help_text
        self._labels = labels
        self._bounds = bounds
        self._counts: dict[tuple[str, ...], list[int]] = {}

    def observe(self, value: float, *labels: str) -> None:
        """Count ``value`` under these values of the labels."""
        counts = self._counts.setdefault(labels, [0] * (len(self._bounds) + 1))
        counts[bisect_left(self._bounds, value)] += 1

    def collect(self) -> Iterator[Metric]:
        """Yield the histogram."""
        family = HistogramMetricFamily(self._name, self._help, labels=self._labels)
        names = [*map(floatToGoString, self._bounds), "+Inf"]
        for labels, counts in self._counts.items():
            buckets = list(zip(names, itertools.accumulate(counts), strict=True))
            family.add_metric(labels, buckets, sum_value=None)
        yield family
