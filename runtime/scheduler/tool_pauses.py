"""How long it takes until the request with a tool's output arrives, as its app says or as it was before."""

from __future__ import annotations

import statistics
from collections import OrderedDict, deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

_MOST_TOOLS: Final = 4096
"""Tools, each of one app, that are remembered; the one that was used the longest ago is forgotten."""
_MOST_ANSWERS: Final = 4096
"""Answers whose next requests are looked for; the oldest is forgotten."""
_PAUSES: Final = 16
"""Last pauses of each tool."""
_UNKNOWN_S: Final = 1.0
"""Of a tool that nothing is known about."""
_NEVER: Final = float("inf")


@dataclass(slots=True)
class _Answer:
    """An answer whose next request has not arrived."""

    app: str
    tool: str
    tokens: int
    ended: float
    late: bool = False


class ToolPauses:
    """The last pauses between answers that called a tool and the requests with its output.

    Of an answer with several calls, the pause counts for the one that was expected to take the longest. Times
    are seconds on one clock.
    """

    def __init__(self) -> None:
        """Know of none."""
        self._pauses: OrderedDict[tuple[str, str], deque[float]] = OrderedDict()
        self._answers: OrderedDict[bytes, _Answer] = OrderedDict()

    def begin(
        self,
        key: bytes,
        tokens: int,
        app: str,
        calls: Collection[str],
        told: Mapping[str, float],
        now: float,
    ) -> float | None:
        """Note that an answer has called tools; return in how many seconds the next request is expected.

        ``key`` is the hash of a block that the next prompt contains, which has at least ``tokens`` tokens:
        prompts of other conversations that begin alike are shorter. ``told`` are the app's own expectations,
        which go before the median of the last pauses. None if it is not expected: most requests after the
        last calls of this tool did not come.
        """
        expected = {tool: self._expected_s(app, tool, told) for tool in sorted(calls)}
        tool = max(expected, key=expected.__getitem__, default="")
        self._answers[key] = _Answer(app, tool, tokens, now)
        self._answers.move_to_end(key)
        if len(self._answers) > _MOST_ANSWERS:
            self._answers.popitem(last=False)
        seconds = expected.get(tool, _UNKNOWN_S)
        return None if seconds == _NEVER else seconds

    def arrive(self, hashes: Sequence[bytes], tokens: int, now: float) -> bytes | None:
        """Note that a request has arrived whose prompt of ``tokens`` tokens has blocks of these ``hashes``.

        Return the key of the answer that it is the next request of; None if it is of none.
        """
        key = next((each for each in reversed(hashes) if each in self._answers), None)
        if key is None or tokens < self._answers[key].tokens:
            return None
        answer = self._answers.pop(key)
        pauses = self._pauses_of(answer)
        if answer.late and _NEVER in pauses:
            pauses.remove(_NEVER)
        pauses.append(max(0.0, now - answer.ended))
        return key

    def expire(self, keys: Collection[bytes]) -> None:
        """Note that the next requests of these answers have not come in time; they may still come."""
        for key in keys:
            if (answer := self._answers.get(key)) is not None:
                answer.late = True
                self._pauses_of(answer).append(_NEVER)

    def _expected_s(self, app: str, tool: str, told: Mapping[str, float]) -> float:
        pauses = self._pauses.get((app, tool))
        learned = statistics.median_low(pauses) if pauses else _UNKNOWN_S
        return told.get(tool, learned) if learned < _NEVER else _NEVER

    def _pauses_of(self, answer: _Answer) -> deque[float]:
        pauses = self._pauses.setdefault((answer.app, answer.tool), deque(maxlen=_PAUSES))
        self._pauses.move_to_end((answer.app, answer.tool))
        if len(self._pauses) > _MOST_TOOLS:
            self._pauses.popitem(last=False)
        return pauses
