"""How long it takes until the request with a tool's output arrives, as an app says or as it was before."""

from __future__ import annotations

import statistics
from collections import OrderedDict, deque
from collections.abc import Collection, Mapping
from typing import Final

_MOST_TOOLS: Final = 4096
"""Tools, each of one app, that are remembered; the one that was used the longest ago is forgotten."""
_PAUSES: Final = 16
"""Last pauses of each."""
_UNKNOWN_S: Final = 1.0
"""Of a tool that nothing is known about."""


class ToolPauses:
    """The last pauses between answers that called a tool and the requests with its output."""

    def __init__(self) -> None:
        """Know of none."""
        self._pauses: OrderedDict[tuple[str, str], deque[float]] = OrderedDict()

    def observe(self, app: str, tool: str, seconds: float) -> None:
        """Note a pause; of calls of several tools, that of the one that was expected to take the longest."""
        pauses = self._pauses.setdefault((app, tool), deque(maxlen=_PAUSES))
        pauses.append(max(0.0, seconds))
        self._pauses.move_to_end((app, tool))
        if len(self._pauses) > _MOST_TOOLS:
            self._pauses.popitem(last=False)

    def longest(self, app: str, calls: Collection[str], told: Mapping[str, float]) -> tuple[str, float]:
        """Return the one of ``calls`` that is expected to take the longest, and its seconds.

        ``told`` are the app's own expectations. They go before the median of the last pauses.
        """
        expected = {tool: told.get(tool, self._median(app, tool)) for tool in sorted(calls)}
        tool = max(expected, key=expected.__getitem__, default="")
        return tool, expected.get(tool, _UNKNOWN_S)

    def _median(self, app: str, tool: str) -> float:
        pauses = self._pauses.get((app, tool))
        return statistics.median(pauses) if pauses else _UNKNOWN_S
