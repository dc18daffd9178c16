"""Claims: handing a speculation from the model's turn to the tool, by ``tool_call_id``.

When the main model answers, each called tool keeps a :class:`PendingClaim` under the id of its call. The id
reaches the tool through every framework, thread and graph; context variables do not. Where the run of a call
is known, its scope keeps equal ids of different runs apart.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from ..concurrency.clock import monotonic
from ..concurrency.threads import on_event_loop
from .speculation import Speculation

R = TypeVar("R")
_MAX_IDS_REMEMBERED = 4096


class ClaimRecorder(Protocol):
    """Records the hits and misses of a turn."""

    def claimed(self, speculation: Speculation, *, tool_s: float, waited_s: float) -> None:
        """Record that ``speculation`` answered a call: it ran ``tool_s``, the call waited ``waited_s``."""
        ...

    def missed(self, tool: str, *, tool_s: float, reason: str, draft_s: float | None = None) -> None:
        """Record that the tool ran for the call, in ``tool_s``; ``draft_s`` as in :class:`PendingClaim`."""
        ...


@dataclass(frozen=True, slots=True)
class PendingClaim:
    """One call of the model's answer, with the speculation that may answer it.

    ``speculation`` is None for a miss, and ``reason`` then says why. ``key`` is the canonical key of the call
    as the model wrote it: a call that arrives with other arguments, because a person or a middleware edited
    them, does not match, and the tool runs. ``draft_s`` is when in the turn the call was drafted, if it was
    drafted and not run speculatively.
    """

    key: str | None
    speculation: Speculation | None
    recorder: ClaimRecorder
    reason: str = ""
    draft_s: float | None = None

    def void(self, reason: str) -> PendingClaim:
        """Drop the speculation for ``reason`` and return a pending claim for the miss."""
        if self.speculation is None:
            return self
        self.speculation.drop(reason)
        return PendingClaim(self.key, None, self.recorder, reason)


class ClaimTable:
    """The pending claims of one tool, by scope and call id. Thread-safe, bounded, each kept ``ttl`` seconds.

    An id that is issued again in its scope while its first claim is pending is ambiguous: both calls are
    misses. Without a scope (None) only the ids tell runs apart, so there an id counts only the first time.
    Endpoints with weak ids (``call_0``) therefore cause misses, never the result of another run.
    """

    def __init__(self, *, ttl: float, max_pending: int = 256, clock: Callable[[], float] = monotonic) -> None:
        """``ttl`` is in seconds of ``clock``; beyond ``max_pending`` the oldest is dropped."""
        self._ttl = ttl
        self._max_pending = max_pending
        self._clock = clock
        self._lock = threading.Lock()
        self._pending: OrderedDict[tuple[Hashable, str], tuple[float, PendingClaim]] = OrderedDict()
        self._issued: OrderedDict[str, None] = OrderedDict()  # the last ids without a scope

    def __len__(self) -> int:
        """The number of pending claims, including expired ones that are not swept yet."""
        with self._lock:
            return len(self._pending)

    def add(self, call_id: str, pending: PendingClaim, scope: Hashable = None) -> None:
        """Keep ``pending`` for the call with this id."""
        with self._lock:
            dropped = self._sweep()
            known = self._pending.pop((scope, call_id), None)
            if known is not None or self._was_issued(scope, call_id):
                reason = "its call id was issued twice"
                dropped += [(pending, reason)] if known is None else [(known[1], reason), (pending, reason)]
                pending = PendingClaim(None, None, pending.recorder, reason)
            self._pending[scope, call_id] = (self._clock(), pending)
            while len(self._pending) > self._max_pending:
                dropped.append((self._pending.popitem(last=False)[1][1], "too many calls were left unmade"))
        _discard(dropped)

    def take(self, call_id: str, scope: Hashable = None) -> PendingClaim | None:
        """Remove and return the pending claim of this id, if it is there and not expired."""
        with self._lock:
            dropped = self._sweep()
            found = self._pending.pop((scope, call_id), None)
        _discard(dropped)
        return None if found is None else found[1]

    def _was_issued(self, scope: Hashable, call_id: str) -> bool:
        """Whether only this id identifies the call, and it was issued to another call before."""
        if scope is not None:
            return False
        known = call_id in self._issued
        self._issued[call_id] = None
        self._issued.move_to_end(call_id)
        if len(self._issued) > _MAX_IDS_REMEMBERED:
            self._issued.popitem(last=False)
        return known

    def _sweep(self) -> list[tuple[PendingClaim, str]]:
        oldest = self._clock() - self._ttl
        dropped = []
        while self._pending:
            name, (left_at, pending) = next(iter(self._pending.items()))
            if left_at >= oldest:
                break
            del self._pending[name]
            dropped.append((pending, "its call was not made in time"))
        return dropped


def _discard(dropped: list[tuple[PendingClaim, str]]) -> None:
    for pending, reason in dropped:
        if pending.speculation is not None:
            pending.speculation.drop(reason)


def claim(
    pending: PendingClaim | None,
    tool: str,
    key: Callable[[], str],
    run: Callable[[], R],
    complete: Callable[[Any], R] | None = None,
) -> R:
    """Answer a call from its speculation, or else with ``run()``. Blocks, but never an event loop.

    ``pending`` None runs the tool and records nothing.
    ``key`` returns the canonical key of the call as it reached the tool; if it raises, nothing matches.
    ``complete`` turns the speculation's result into the answer; its error is the call's own error, because
    its effect may have happened. On an event loop's thread only a finished speculation is used; in other
    threads an unfinished one is waited for, unless it needs a loop to proceed.
    """
    if pending is None:
        return run()
    speculation, reason = _match(pending, key)
    if speculation is not None and not speculation.done and (speculation.needs_loop or on_event_loop()):
        speculation, reason = None, "waiting for it would have blocked an event loop"
    if speculation is not None:
        called_at = monotonic()
        outcome = speculation.result()
        if outcome.usable:
            with _recorded_claim(pending, speculation, called_at):
                return outcome.value if complete is None else complete(outcome.value)
        reason = speculation.lost_because
    with _recorded_miss(pending, tool, reason):
        return run()


async def aclaim(
    pending: PendingClaim | None,
    tool: str,
    key: Callable[[], str],
    run: Callable[[], Awaitable[R]],
    complete: Callable[[Any], Awaitable[R]] | None = None,
) -> R:
    """:func:`claim` for coroutines: an unfinished speculation is awaited."""
    if pending is None:
        return await run()
    speculation, reason = _match(pending, key)
    if speculation is not None:
        called_at = monotonic()
        outcome = await speculation.aresult()
        if outcome.usable:
            with _recorded_claim(pending, speculation, called_at):
                return outcome.value if complete is None else await complete(outcome.value)
        reason = speculation.lost_because
    with _recorded_miss(pending, tool, reason):
        return await run()


def _match(pending: PendingClaim, key: Callable[[], str]) -> tuple[Speculation | None, str]:
    if pending.speculation is None:
        return None, pending.reason
    if not pending.speculation.usable:
        return None, pending.speculation.lost_because
    with suppress(Exception):  # canonicalisers are the user's; one that fails gives no match
        if key() == pending.key:
            return pending.speculation, ""
    return None, "the arguments were edited"


@contextmanager
def _recorded_claim(pending: PendingClaim, speculation: Speculation, called_at: float) -> Iterator[None]:
    """Record the speculation's run time and the call's waiting time; completing it adds to both."""
    answered_at = monotonic()
    try:
        yield
    finally:
        completing_s = monotonic() - answered_at
        pending.recorder.claimed(
            speculation,
            tool_s=speculation.seconds + completing_s,
            waited_s=answered_at - called_at + completing_s,
        )


@contextmanager
def _recorded_miss(pending: PendingClaim, tool: str, reason: str) -> Iterator[None]:
    """Drop the speculation, and record the time of the real run, even if it raises."""
    _discard([(pending, reason)])
    started = monotonic()
    try:
        yield
    finally:
        pending.recorder.missed(tool, tool_s=monotonic() - started, reason=reason, draft_s=pending.draft_s)
