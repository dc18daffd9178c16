"""The pending claims of one tool: which of them a call that reaches the tool may take."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass

from ..concurrency.clock import monotonic
from .claims import PendingClaim
from .scopes import TurnMark

_MAX_IDS_REMEMBERED = 4096
_AMBIGUOUS = "equal calls of its run could not be told apart"


@dataclass(slots=True, eq=False)
class _Entry:
    """A pending claim with the run, the turn and the id of its call.

    ``ids`` has the one id, None for a call without one. After a call that could not be told apart from others
    it has the ids of all of them, and ``turn`` is none of theirs. ``counted`` says that the call has been
    reported as one that was made otherwise.
    """

    pending: PendingClaim
    run: Hashable
    turn: TurnMark
    ids: frozenset[str | None]
    added_at: float
    counted: bool = False


class ClaimTable:
    """The pending claims of one tool, by run. Thread-safe, bounded, each kept ``ttl`` seconds.

    A run is its scope, or its turn's mark where it has none. A call takes a pending claim of its own run: the
    one with its id, or, if the call has no id or the id is there more than once, the one with its canonical
    key. If equal calls of several turns of the run are pending then, they cannot be told apart, and all are
    misses. A call that was not made before the next turn of its context stays pending as a miss, where the
    run has no scope: it may be another conversation's. Outside its context a turn without a scope is known
    only by the ids of its calls: there an id counts if it has been issued once.
    """

    def __init__(self, *, ttl: float, max_pending: int = 256, clock: Callable[[], float] = monotonic) -> None:
        """``ttl`` is in seconds of ``clock``; beyond ``max_pending`` the oldest is dropped."""
        self._ttl = ttl
        self._max_pending = max_pending
        self._clock = clock
        self._lock = threading.Lock()
        self._entries: OrderedDict[_Entry, None] = OrderedDict()
        self._runs: dict[Hashable, list[_Entry]] = {}
        self._by_id: dict[str, _Entry] = {}  # of turns without a scope
        self._issued: OrderedDict[str, None] = OrderedDict()  # the last ids of all turns

    def __len__(self) -> int:
        """The number of pending claims, including expired ones that are not swept yet."""
        return len(self._entries)

    def add(self, call_id: str | None, pending: PendingClaim, turn: TurnMark, scope: Hashable = None) -> None:
        """Keep ``pending`` for a call of ``turn``; ``scope`` is that of the run, None if it has none."""
        run = turn if scope is None else scope
        entry = _Entry(pending, run, turn, frozenset([call_id or None]), self._clock())
        with self._lock:
            dropped = self._sweep()
            self._entries[entry] = None
            self._runs.setdefault(run, []).append(entry)
            if call_id:
                self._issue(call_id, entry if scope is None else None)
            while len(self._entries) > self._max_pending:
                oldest = next(iter(self._entries))
                self._remove(oldest)
                dropped.append((oldest, "too many calls were left unmade"))
        _drop_unmade(dropped)

    def take(
        self, call_id: str | None, key: str | None, turn: TurnMark | None, scope: Hashable = None
    ) -> PendingClaim | None:
        """Remove and return the pending claim of a call, None if there is none.

        ``key`` is the call's canonical key, None if it has none; ``turn`` and ``scope`` are those of the
        context in which it is made.
        """
        run = turn if scope is None else scope
        with self._lock:
            dropped = self._sweep()
            found, ambiguous = self._find(call_id or None, key, run, known_by_id=scope is None)
            if found is not None:
                self._remove(found)
            voided = [entry.pending for entry in ambiguous]
            ids = frozenset[str | None]().union(*(entry.ids for entry in ambiguous))
            for entry in ambiguous:  # any of them may be the one that was taken
                entry.turn, entry.ids = TurnMark(), ids
                entry.pending = entry.pending.missed(_AMBIGUOUS)
        _drop_unmade(dropped)
        for pending in voided:
            pending.drop_unclaimed(_AMBIGUOUS, called=True)
        return None if found is None or found.counted else found.pending

    def leave_turn(
        self, turn: TurnMark, following: TurnMark, reason: str, answered: Collection[str] = ()
    ) -> None:
        """Drop the speculations of ``turn``, which has no scope; ``following`` follows it in its context.

        The calls count as made or not as in :meth:`drop_turn`. They may be another conversation's, also if
        their ids, which can repeat, are in ``answered``. So all become misses of the run of ``following`` and
        take no claim of an equal call; :meth:`drop_calls` removes those with unique ids.
        """
        if turn not in self._runs:
            return
        with self._lock:
            of_run = self._runs.pop(turn, [])
            if of_run:
                self._runs[following] = of_run
            left = []
            for entry in of_run:
                made = _is_made(entry, answered)
                left.append((entry.pending, made))
                entry.counted = entry.counted or (made and entry.pending.speculation is not None)
                entry.run, entry.pending = following, entry.pending.missed(reason)
        for pending, made in left:
            pending.drop_unclaimed(reason, made=made)

    def drop_turn(self, turn: TurnMark, reason: str, answered: Collection[str] = ()) -> None:
        """Drop the pending claims of ``turn``.

        Those with an id in ``answered`` were made otherwise, and so are those without an id taken to be. The
        others were not made.
        """
        if not self._entries:
            return
        with self._lock:
            found = [entry for entry in self._entries if entry.turn is turn]
            for entry in found:
                self._remove(entry)
        for entry in found:
            entry.pending.drop_unclaimed(reason, made=_is_made(entry, answered))

    def drop_calls(
        self, call_ids: Collection[str], scope: Hashable, reason: str, *, made: bool = True
    ) -> None:
        """Drop the pending claims of these calls of a run; ``scope`` is None for one without.

        They were made otherwise, or, with ``made`` False, not at all.
        """
        if not self._entries or not call_ids:
            return
        with self._lock:
            if scope is None:
                named = [self._by_id[call_id] for call_id in call_ids if call_id in self._by_id]
                found = [entry for entry in named if len(entry.ids) == 1]
            else:
                found = [entry for entry in self._runs.get(scope, ()) if entry.ids.issubset(call_ids)]
            for entry in found:
                self._remove(entry)
        for entry in found:
            entry.pending.drop_unclaimed(reason, made=made)

    def _find(
        self, call_id: str | None, key: str | None, run: Hashable, *, known_by_id: bool
    ) -> tuple[_Entry | None, list[_Entry]]:
        """Return the entry of a call, and all entries that it may be if that cannot be said."""
        of_run = self._runs.get(run, [])
        if call_id is None:
            return _by_key(of_run, key)
        with_id = [entry for entry in of_run if call_id in entry.ids]
        if len(with_id) == 1:
            return with_id[0], []
        if with_id:
            return _by_key(with_id, key)
        if known_by_id and call_id in self._by_id:
            return self._by_id[call_id], []
        return _by_key([entry for entry in of_run if None in entry.ids], key)

    def _issue(self, call_id: str, entry: _Entry | None) -> None:
        """Note that an id was issued, and for which entry it stands outside of contexts, if for any."""
        if call_id in self._issued:
            self._by_id.pop(call_id, None)
        elif entry is not None:
            self._by_id[call_id] = entry
        self._issued[call_id] = None
        self._issued.move_to_end(call_id)
        if len(self._issued) > _MAX_IDS_REMEMBERED:
            self._issued.popitem(last=False)

    def _remove(self, entry: _Entry) -> None:
        del self._entries[entry]
        of_run = self._runs[entry.run]
        of_run.remove(entry)
        if not of_run:
            del self._runs[entry.run]
        for call_id in entry.ids:
            if call_id is not None and self._by_id.get(call_id) is entry:
                del self._by_id[call_id]

    def _sweep(self) -> list[tuple[_Entry, str]]:
        oldest = self._clock() - self._ttl
        dropped = []
        while self._entries:
            entry = next(iter(self._entries))
            if entry.added_at >= oldest:
                break
            self._remove(entry)
            dropped.append((entry, "its call was not made in time"))
        return dropped


def _is_made(entry: _Entry, answered: Collection[str]) -> bool:
    """Whether a call that its run has left behind is taken to be made, without a claim."""
    return not entry.ids.isdisjoint((None, *answered))


def _by_key(entries: list[_Entry], key: str | None) -> tuple[_Entry | None, list[_Entry]]:
    """Return the oldest entry with this key, and all of them if they are of several turns."""
    equal = [entry for entry in entries if key is not None and entry.pending.key == key]
    if not equal:
        return None, []
    several_turns = any(entry.turn is not equal[0].turn for entry in equal)
    return equal[0], equal if several_turns else []


def _drop_unmade(dropped: list[tuple[_Entry, str]]) -> None:
    for entry, reason in dropped:
        entry.pending.drop_unclaimed(reason, made=False)
