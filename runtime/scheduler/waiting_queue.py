"""The waiting requests of one class: the real-time or the best-effort queue (Agent.xpu §6.1)."""

from __future__ import annotations

from bisect import bisect_left, insort
from itertools import islice
from operator import itemgetter
from typing import TypeAlias

from .sequence import Sequence

Turn: TypeAlias = tuple[bool, float, int]
"""When a waiting sequence is served: promoted ones (False) first, then the lower number, then by arrival."""

_by_turn = itemgetter(0)


class RequestQueue:
    """Sequences sorted by turn. Looking at the first costs nothing, however long the queue."""

    def __init__(self) -> None:
        """Nobody waits."""
        self._sorted: list[tuple[Turn, Sequence]] = []
        self._turns: dict[Sequence, Turn] = {}

    def __len__(self) -> int:
        """How many wait."""
        return len(self._sorted)

    def add(self, sequence: Sequence, turn: Turn) -> None:
        """Let ``sequence`` wait for its ``turn``, the lower the sooner."""
        self._turns[sequence] = turn
        insort(self._sorted, (turn, sequence), key=_by_turn)

    def remove(self, sequence: Sequence) -> None:
        """Take ``sequence`` out."""
        del self._sorted[bisect_left(self._sorted, self._turns.pop(sequence), key=_by_turn)]

    def first(self, count: int) -> list[Sequence]:
        """The ``count`` whose turn is next."""
        return [sequence for _, sequence in islice(self._sorted, count)]

    @property
    def last(self) -> Sequence:
        """The one that would be served after all others."""
        return self._sorted[-1][1]

    def check_integrity(self) -> None:
        """Check that everyone waits once, in order.

        Raises:
            AssertionError: always a bug.
        """
        turns = [turn for turn, _ in self._sorted]
        if turns != sorted(self._turns.values()) or len(set(turns)) != len(turns):
            raise AssertionError("the queue is not sorted, or someone waits twice")
