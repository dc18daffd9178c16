"""Which cached KV blocks give way first: by when their contexts are expected to return, never far behind LRU.

An answer that calls tools is followed by a request that begins with the same tokens, in about the time that
its tools take. First go blocks that no return is expected for, the least recently used first, then those
whose return is expected last (Belady's rule on predicted times). Expectations may be wrong, or lies. So the
policy also follows what LRU would hold, by hashes alone, and gives each app a balance: it pays one for each
of its blocks that is evicted and that LRU would still have, and gets one back where LRU has lost a block that
is still here, or loses one that was paid for. While the balance is used up, its blocks go as LRU says.

So each app misses at most what it would miss under LRU, 5 % of that, and :attr:`EvictionPolicy.most_owed`
more, whatever it or others expect. To see why, count for an app its misses, and the blocks that LRU has and
this policy has not: evicting the least recently used block never adds to that sum more than a miss of LRU
does, as LRU has lost this block already, and any other eviction is paid for. (Wei, "Better and Simpler
Learning-Augmented Online Caching", 2020, follows the better of both in a similar way.)
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter, OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

_MOST_APPS: Final = 1024
"""Apps with a balance of their own; that of the app whose balance changed the longest ago is forgotten."""
_FORGIVEN: Final = 0.05
"""What an app gets for a block that neither policy has kept, so that one that was wrong may try again."""

_MOST_EXPIRED: Final = 128
"""Blocks whose order one call changes: thousands at once would hold up a kernel for longer than a quantum."""


class _Place(NamedTuple):
    """When a block goes, the least first."""

    at: float
    """Minus the time of its return; minus infinity without one."""
    use: int
    """A number that grows with every use."""
    block_hash: bytes
    level: float | None
    """Its level is kept from sequences of less urgent ones; None without a return."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ExpectedReturn:
    """The next request of a context whose answer has called tools, as it is expected."""

    key: bytes
    """What tells it from others: the hash of a block that the next prompt contains."""
    hashes: Sequence[bytes]
    """Those of the blocks that are kept for it: a prefix and all before it."""
    app: str
    context_id: str
    at: float
    """When the request is expected. This and the next two are seconds on one clock."""
    late: float
    """From when on it is expected only at :attr:`until`: what is overdue may take long, or never come."""
    until: float
    """When it is no longer expected."""
    level: float
    """Sequences of less urgent levels do not take its blocks."""


class EvictionPolicy:
    """The order in which the cached blocks of one pool that nobody holds are evicted, by their hashes.

    Each operation takes logarithmic time for each block. Not thread-safe: part of :class:`BlockPool`.
    """

    def __init__(self, capacity: int) -> None:
        """``capacity`` is in blocks."""
        self._capacity = capacity
        self.most_owed: Final = max(1, capacity // 2)
        """Most blocks by which an app may be behind LRU (:mod:`.eviction_policy`)."""
        self._owners: dict[bytes, str] = {}
        self._idle: dict[bytes, _Place] = {}  # least recently used first
        self._order: list[_Place] = []  # a heap; a place counts while it is in _idle
        self._uses = itertools.count()
        self._active: OrderedDict[bytes, ExpectedReturn] = OrderedDict()
        self._expiry: list[tuple[float, int, ExpectedReturn]] = []
        self._returns: dict[bytes, list[tuple[float, int, ExpectedReturn]]] = {}  # heaps
        self._expected_hashes = 0
        self.expected = 0
        """How many of the blocks are kept for a return, to be read, also on other threads."""
        self._kept: Counter[float] = Counter()
        self._lru: OrderedDict[bytes, str] = OrderedDict()
        """What LRU would hold, and whose it is."""
        self._wanted: set[bytes] = set()
        """Of these, what a sequence under LRU would hold, and here is about to compute."""
        self._lost: OrderedDict[bytes, None] = OrderedDict()
        """What LRU has evicted, so that a block which is computed again is told from a new one."""
        self._balances: OrderedDict[str, float] = OrderedDict()

    def __len__(self) -> int:
        """Return how many blocks can be evicted."""
        return len(self._idle)

    def __iter__(self) -> Iterator[bytes]:
        """Return the hashes of the blocks that can be evicted, the least recently used first."""
        return iter(self._idle)

    def __contains__(self, block_hash: bytes) -> bool:
        """Whether the block of this hash can be evicted."""
        return block_hash in self._idle

    # What happens to blocks.

    def computed(self, block_hash: bytes, app: str) -> None:
        """Note that ``app`` has computed a block, and holds it."""
        self._owners[block_hash] = app
        self._wanted.discard(block_hash)
        if self._lru.pop(block_hash, None) is None and block_hash in self._lost:
            del self._lost[block_hash]
            self._pay(app, _FORGIVEN)

    def acquired(self, block_hash: bytes) -> None:
        """Note that a block that could be evicted has a holder."""
        self._remove(block_hash)
        self._wanted.discard(block_hash)
        if self._lru.pop(block_hash, None) is None:
            self._lost.pop(block_hash, None)
            self._pay(self._owners[block_hash], 1)

    def missed(self, block_hashes: Sequence[bytes]) -> None:
        """Note that a sequence will compute these blocks, which LRU might have had for it."""
        for block_hash in reversed(block_hashes):
            if block_hash in self._lru and block_hash not in self._idle:
                self._lru.move_to_end(block_hash)
                self._wanted.add(block_hash)

    def released(self, block_hash: bytes) -> None:
        """Note that a block has no holder any more; of one sequence, those at the end first."""
        self._lru[block_hash] = self._owners[block_hash]
        self._place(block_hash, next(self._uses))

    def limit(self, room: int) -> None:
        """Note that ``room`` blocks have no holder, cached or not. Call it before :meth:`evict`."""
        while len(self._lru) - len(self._wanted) > room:
            block_hash, app = self._lru.popitem(last=False)
            self._wanted.discard(block_hash)
            self._lost[block_hash] = None
            if block_hash not in self._idle:
                self._pay(app, 1)
        while len(self._lost) > self._capacity:
            self._lost.popitem(last=False)

    def evict(self) -> bytes:
        """Remove the block that goes first, and return its hash."""
        block_hash = self._first()
        app = self._owners[block_hash]
        if block_hash in self._lru and self._balance(app) < 1:
            block_hash = next(iter(self._idle))
            app = self._owners[block_hash]
        if block_hash in self._lru:
            self._pay(app, -1)
        self._forget(block_hash)
        return block_hash

    # What is expected.

    @property
    def returns(self) -> list[ExpectedReturn]:
        """What is expected at present."""
        return list(self._active.values())

    def expect(self, expected: ExpectedReturn) -> None:
        """Expect a return, in the place of an earlier one with this key.

        All of them name at most eight times as many hashes as there are blocks; the oldest give way.
        """
        self.end(expected.key)
        self._active[expected.key] = expected
        entry = (next(self._uses), expected)
        heapq.heappush(self._expiry, (min(expected.late, expected.until), *entry))
        for block_hash in expected.hashes:
            returns = self._returns.setdefault(block_hash, [])
            if len(returns) > 2 * len(self._active):
                returns[:] = [each for each in returns if self._is_active(each[2])]
                heapq.heapify(returns)
            heapq.heappush(returns, (expected.at, *entry))
            self._reorder(block_hash)
        self._expected_hashes += len(expected.hashes)
        while self._expected_hashes > 8 * self._capacity:
            self.end(next(iter(self._active)))
        if len(self._expiry) > 2 * len(self._active) + 8:
            self._expiry = [each for each in self._expiry if self._is_active(each[2])]
            heapq.heapify(self._expiry)

    def find(self, key: bytes | None) -> ExpectedReturn | None:
        """Return the expected return of this key; None if none is expected."""
        return None if key is None else self._active.get(key)

    def end(self, key: bytes) -> None:
        """Expect the return of this key no longer."""
        ended = self._active.pop(key, None)
        if ended is not None:
            self._expected_hashes -= len(ended.hashes)
            for block_hash in ended.hashes:
                self._reorder(block_hash)

    def expire(self, now: float) -> list[bytes]:
        """Expect those no longer that have not come until ``now``; return their keys.

        One call ends a few of many: those with some :data:`_MOST_EXPIRED` blocks. The next ends further ones.
        """
        expired: list[bytes] = []
        blocks = 0
        while blocks < _MOST_EXPIRED and self.next_expiry() <= now and self._expiry:
            due = heapq.heappop(self._expiry)[2]
            blocks += len(due.hashes)
            if due.until > now:
                self.expect(replace(due, at=due.until, late=due.until))
            else:
                self.end(due.key)
                expired.append(due.key)
        return expired

    def next_expiry(self) -> float:
        """When the next return is late or no longer expected; infinite if none is."""
        while self._expiry and not self._is_active(self._expiry[0][2]):
            heapq.heappop(self._expiry)
        return self._expiry[0][0] if self._expiry else float("inf")

    def kept_from(self, level: float) -> int:
        """How many of the blocks are kept for returns of more urgent levels than ``level``."""
        return sum(count for other, count in self._kept.items() if other < level)

    def _is_active(self, expected: ExpectedReturn) -> bool:
        return self._active.get(expected.key) is expected

    def _soonest(self, block_hash: bytes) -> ExpectedReturn | None:
        returns = self._returns.get(block_hash)
        if returns is None:
            return None
        while returns and not self._is_active(returns[0][2]):
            heapq.heappop(returns)
        if not returns:
            del self._returns[block_hash]
            return None
        return returns[0][2]

    def _reorder(self, block_hash: bytes) -> None:
        if block_hash in self._idle:
            self._place(block_hash, self._idle[block_hash].use)
        else:
            self._soonest(block_hash)  # which forgets those that have ended

    def _place(self, block_hash: bytes, use: int) -> None:
        """Give a block its place in the order."""
        self._uncount(self._idle.get(block_hash))
        soonest = self._soonest(block_hash)
        if soonest is None:
            place = _Place(float("-inf"), use, block_hash, None)
        else:
            place = _Place(-soonest.at, use, block_hash, soonest.level)
            self._kept[soonest.level] += 1
            self.expected += 1
        self._idle[block_hash] = place
        heapq.heappush(self._order, place)
        if len(self._order) > 4 * len(self._idle) + 64:
            self._order = list(self._idle.values())
            heapq.heapify(self._order)

    def _remove(self, block_hash: bytes) -> None:
        self._uncount(self._idle.pop(block_hash))

    def _forget(self, block_hash: bytes) -> None:
        self._remove(block_hash)
        del self._owners[block_hash]

    def _uncount(self, place: _Place | None) -> None:
        if place is not None and place.level is not None:
            self._kept[place.level] -= 1
            self.expected -= 1

    def _first(self) -> bytes:
        """Return the hash of the block that goes first."""
        while self._idle.get(self._order[0].block_hash) is not self._order[0]:
            heapq.heappop(self._order)
        return self._order[0].block_hash

    def _balance(self, app: str) -> float:
        return self._balances.get(app, float(self.most_owed))

    def _pay(self, app: str, amount: float) -> None:
        self._balances[app] = min(self._balance(app) + amount, float(self.most_owed))
        self._balances.move_to_end(app)
        if len(self._balances) > _MOST_APPS:
            self._balances.popitem(last=False)
