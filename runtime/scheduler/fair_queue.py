"""The sequences of one priority level, among whose apps service is shared.

Each app has a counter of the tokens that were computed for it, by weight, and the app with the lowest is
served first (virtual token counters: Sheng et al. 2024, "Fairness in Serving Large Language Models",
Algorithm 2). An app whose requests were all served starts at the lowest counter of the others, so that idling
earns no credit. Unlike there, a running sequence yields its place in a batch, by which it loses nothing.
"""

from __future__ import annotations

import heapq
import itertools
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from itertools import islice
from operator import itemgetter
from typing import Any, Generic, TypeAlias, TypeVar

from .policy import Policy
from .sequence import Sequence, SequenceState, by_order

Item = TypeVar("Item", bound=Hashable)

_by_key = itemgetter(0)


class Ranking(Generic[Item]):
    """Items, each with a key of its own, the lowest key first. Keys are comparable and distinct.

    Finding the place of an item is O(log n), and reading the first ones is O(1) in the number of all.
    """

    def __init__(self) -> None:
        """Create an empty ranking."""
        self._sorted: list[tuple[Any, Item]] = []
        self._keys: dict[Item, Any] = {}

    def __len__(self) -> int:
        """How many items there are."""
        return len(self._sorted)

    def __contains__(self, item: Item) -> bool:
        """Whether ``item`` is one of them."""
        return item in self._keys

    def __getitem__(self, place: int) -> Item:
        """The item at ``place``; -1 is the last."""
        return self._sorted[place][1]

    def put(self, item: Item, key: Any) -> None:
        """Insert ``item`` by ``key``, or move it there."""
        self.discard(item)
        self._keys[item] = key
        insort(self._sorted, (key, item), key=_by_key)

    def discard(self, item: Item) -> None:
        """Remove ``item``, if it is there."""
        if item in self._keys:
            del self._sorted[bisect_left(self._sorted, self._keys.pop(item), key=_by_key)]

    def first(self, count: int) -> list[Item]:
        """The first ``count`` items, or all if there are fewer."""
        return [item for _, item in islice(self._sorted, count)]

    def key(self, item: Item) -> Any:
        """The key of ``item``, which is there."""
        return self._keys[item]

    def check_integrity(self) -> None:
        """Check that every item is there once, in order."""
        keys = [key for key, _ in self._sorted]
        if keys != sorted(self._keys.values()) or len(set(keys)) != len(keys):
            raise AssertionError("a ranking is not sorted, or an item is in it twice")


QueueKey: TypeAlias = tuple[bool, float, int]
"""Sort key of a waiting sequence within its app: not promoted, estimated seconds left (or 0), arrival number.
Lower is first."""


@dataclass(slots=True, eq=False)
class _Share:
    """What one app has of the level."""

    app: str
    served: float = 0.0
    """Its counter."""
    turn_end: float = 0.0
    """The counter at which its turn is over. A turn begins when it runs a sequence and ran none before."""
    waiting: Ranking[Sequence] = field(default_factory=Ranking)
    running: int = 0
    left_out: bool = False
    """Whether a sequence of it that could decode had no place in the last batch of decodes."""


class FairQueue:
    """The waiting sequences of one priority level, and the shares of all its apps.

    Each app's sequences have an order of their own. Among apps, the position of the n-th of an app (from 0)
    is the app's counter and n times the tokens of a place: those of a turn, divided by the places of a batch.
    So an app that has all places loses one at once to any other, apps with equal counters have equally many
    places, and an app that is ahead by a turn has none.
    """

    def __init__(self, policy: Policy, max_batch_size: int) -> None:
        """``max_batch_size`` is the number of places."""
        self._policy = policy
        self._place_tokens = policy.turn_tokens / max_batch_size
        self._shares: dict[str, _Share] = {}
        self._running: dict[_Share, None] = {}
        self._waiting = 0
        # Rankings are brought up to date when they are read (_refresh): counters change with every token.
        self._changed: set[_Share] = set()
        self._idle: Ranking[_Share] = Ranking()
        """Shares without unfinished sequences, by counter."""
        self._backlogged: Ranking[_Share] = Ranking()
        """Shares of which a sequence waits or is left out, by counter."""
        self._by_first: Ranking[_Share] = Ranking()
        """Shares with waiting and running sequences, by the first one that waits."""
        self._newcomers: Ranking[_Share] = Ranking()
        """Shares with waiting sequences and no running one, likewise."""

    def __len__(self) -> int:
        """How many sequences wait."""
        return self._waiting

    @property
    def is_shared(self) -> bool:
        """Whether more than one app has unfinished sequences."""
        if len(self._shares) <= 1:
            return False
        self._refresh()
        return len(self._shares) - len(self._idle) > 1

    @property
    def last(self) -> Sequence:
        """The waiting sequence that is served after all others; looked for when too many wait."""
        waiting = [share for share in self._shares.values() if share.waiting]
        return max(waiting, key=lambda share: self._waiting_key(share, len(share.waiting) - 1)).waiting[-1]

    # Events.

    def arrive(self, sequence: Sequence) -> None:
        """Note a new sequence, before :meth:`add`, and raise the counter of its app.

        An app that was given all that it asked for has no claim to more than the others.
        """
        self._refresh()
        share = self._shares.setdefault(self._app_of(sequence), _Share(self._app_of(sequence)))
        if share in self._backlogged:
            return
        if self._backlogged:
            least = self._backlogged[0].served
            share.served = max(share.served, least)
        else:  # so were all others
            least = float("inf")
            share.served = max((each.served for each in self._running), default=0.0)
        self._changed.add(share)
        self._idle.discard(share)
        while self._idle and self._idle[0].served <= least:
            forgotten = self._idle[0]
            self._idle.discard(forgotten)
            del self._shares[forgotten.app]

    def add(self, sequence: Sequence, key: QueueKey) -> None:
        """Insert a waiting sequence by ``key``; within its app the lower key is served first."""
        self._change(sequence).waiting.put(sequence, key)
        self._waiting += 1

    def remove(self, sequence: Sequence) -> None:
        """Remove a sequence that waits."""
        self._change(sequence).waiting.discard(sequence)
        self._waiting -= 1

    def run(self, sequence: Sequence) -> None:
        """Note that a sequence, which does not wait any more, runs."""
        share = self._change(sequence)
        if not share.running:
            share.turn_end = share.served + self._policy.turn_tokens
            self._running[share] = None
        share.running += 1

    def stop(self, sequence: Sequence) -> None:
        """Note that a running sequence has ended, or has lost its blocks."""
        share = self._change(sequence)
        share.running -= 1
        if not share.running:
            del self._running[share]
            share.left_out = False

    def charge(self, sequence: Sequence, end: int, weight: float) -> None:
        """Count the tokens of ``sequence`` before ``end``, which are computed now, each by ``weight``.

        Tokens that are computed again, or were found in the prefix cache, are not counted.
        """
        tokens = end - max(sequence.computed_tokens, sequence.charged_tokens)
        if tokens > 0:
            sequence.charged_tokens = end
            self._change(sequence).served += tokens * weight

    def note_left_out(self, sequences: Iterable[Sequence]) -> None:
        """Note the sequences that could decode and have no place in a batch of decodes that is started."""
        if self.is_shared:
            left_out = {self._shares[self._app_of(sequence)] for sequence in sequences}
            for share in self._running:
                if share.left_out != (share in left_out):
                    share.left_out = not share.left_out
                    self._changed.add(share)

    # Orders.

    def first(self, count: int) -> list[Sequence]:
        """The ``count`` waiting sequences that are served next, or all if there are fewer.

        While :attr:`Policy.sharing_apps` apps are in their turns, those that run nothing wait for the end of
        one, unless they wait with a promoted sequence.
        """
        shares = list(self._shares.values()) if len(self._shares) == 1 else self._shares_with_a_turn(count)
        return self._merged(shares, count)

    def next_in_order(self, count: int) -> list[Sequence]:
        """As :meth:`first`, and behind these the ones that wait for the end of a turn."""
        found = self.first(count)
        if len(found) < min(count, self._waiting):
            known = set(found)
            waiting = [share for share in self._shares.values() if share.waiting]
            others = (each for each in self._merged(waiting, count) if each not in known)
            found += itertools.islice(others, count - len(found))
        return found

    def _merged(self, shares: list[_Share], count: int) -> list[Sequence]:
        """The first ``count`` waiting sequences of ``shares``, by their positions."""
        if len(shares) == 1:
            return shares[0].waiting.first(count)
        heap = [(self._waiting_key(share, 0), 0, share) for share in shares]
        heapq.heapify(heap)
        found: list[Sequence] = []
        while heap and len(found) < count:
            _, place, share = heap[0]
            found.append(share.waiting[place])
            if place + 1 < len(share.waiting):
                heapq.heapreplace(heap, (self._waiting_key(share, place + 1), place + 1, share))
            else:
                heapq.heappop(heap)
        return found

    def in_order(self, sequences: list[Sequence]) -> list[Sequence]:
        """Return ``sequences`` by their positions; those of each app are in order already."""
        return sorted(sequences, key=self._positions(sequences).__getitem__) if self.is_shared else sequences

    def behind(self, sequence: Sequence, running: list[Sequence]) -> list[Sequence]:
        """Return those of ``running`` that are served after ``sequence``, in order.

        ``running`` are all running sequences of the level, sorted by :attr:`Sequence.order`.
        """
        ordered = self.in_order(_with(sequence, running))
        return ordered[ordered.index(sequence) + 1 :]

    def yielding(self, sequence: Sequence, running: list[Sequence]) -> list[Sequence]:
        """Return those of :meth:`behind` that yield their blocks to ``sequence``.

        What yields its blocks computes them again. So to a sequence that waits, those of other apps yield
        only if they are behind it by a turn.
        """
        behind = self.behind(sequence, running)
        if sequence.state is not SequenceState.WAITING or not self.is_shared:
            return behind
        positions = self._positions(_with(sequence, running))
        unpromoted, tokens = positions[sequence]
        limit = (unpromoted, tokens + self._policy.turn_tokens)
        app = self._app_of(sequence)
        return [each for each in behind if self._app_of(each) == app or positions[each] > limit]

    def check_integrity(self, running: Iterable[Sequence]) -> None:
        """Check that every sequence that waits is there once, in order, and that ``running`` are counted."""
        self._refresh()
        counts = Counter(self._app_of(sequence) for sequence in running)
        for share in self._shares.values():
            share.waiting.check_integrity()
            if share.running != counts[share.app] or bool(share.running) != (share in self._running):
                raise AssertionError(f"{share.running} sequences of app {share.app!r} are said to run")
            waits, runs = bool(share.waiting), bool(share.running)
            listed = [ranking for ranking in (self._by_first, self._newcomers) if share in ranking]
            if listed != [self._by_first if runs else self._newcomers][: int(waits)]:
                raise AssertionError(f"app {share.app!r} is not in the ranking of the waiting apps")
            if (share in self._idle) != (not waits and not runs):
                raise AssertionError(f"app {share.app!r} is idle without being so, or the reverse")
        if self._waiting != sum(len(share.waiting) for share in self._shares.values()):
            raise AssertionError("the sequences that wait are not counted")
        for ranking in (self._idle, self._backlogged, self._by_first, self._newcomers):
            ranking.check_integrity()

    def _app_of(self, sequence: Sequence) -> str:
        return sequence.app if self._policy.share_apps else ""

    def _change(self, sequence: Sequence) -> _Share:
        """Return the share of a sequence's app, which changes."""
        share = self._shares[self._app_of(sequence)]
        self._changed.add(share)
        return share

    def _refresh(self) -> None:
        while self._changed:
            self._rank(self._changed.pop())

    def _rank(self, share: _Share) -> None:
        """Give a share its place in each ranking."""
        waits, runs = bool(share.waiting), bool(share.running)
        by_counter = (share.served, share.app)
        first = self._waiting_key(share, 0) if waits else None
        for ranking, key in (
            (self._idle, None if waits or runs else by_counter),
            (self._backlogged, by_counter if waits or share.left_out else None),
            (self._by_first, first if runs else None),
            (self._newcomers, None if runs else first),
        ):
            if key is None:
                ranking.discard(share)
            else:
                ranking.put(share, key)

    def _shares_with_a_turn(self, count: int) -> list[_Share]:
        """The shares whose waiting sequences may run next: at most ``count`` of those that run none."""
        self._refresh()
        in_turn = sum(share.served < share.turn_end for share in self._running)
        newcomers = self._newcomers.first(count)
        admitted = [
            share
            for place, share in enumerate(newcomers)
            if in_turn + place < self._policy.sharing_apps or share.waiting[0].promoted
        ]
        return self._by_first.first(len(self._by_first)) + admitted

    def _waiting_key(self, share: _Share, place: int) -> tuple[bool, float, QueueKey]:
        """Sort key of the waiting sequence at ``place`` of its app."""
        sequence = share.waiting[place]
        position = share.served + (share.running + place) * self._place_tokens
        return (not sequence.promoted, position, share.waiting.key(sequence))

    def _positions(self, sequences: Iterable[Sequence]) -> dict[Sequence, tuple[bool, float]]:
        """Sort keys of ``sequences``, of which those of each app are in order: not promoted, tokens."""
        places: Counter[str] = Counter()
        positions = {}
        for sequence in sequences:
            app = self._app_of(sequence)
            tokens = self._shares[app].served + places[app] * self._place_tokens
            positions[sequence] = (not sequence.promoted, tokens)
            places[app] += 1
        return positions


def _with(sequence: Sequence, running: list[Sequence]) -> list[Sequence]:
    """Return ``running`` and ``sequence``, sorted by :attr:`Sequence.order`."""
    if sequence.state is not SequenceState.WAITING:
        return running
    place = bisect_left(running, sequence.order, key=by_order)
    return [*running[:place], sequence, *running[place:]]
