"""Claims: handing a speculation from the model's turn to the tool.

When the main model answers, each called tool keeps a :class:`PendingClaim` in its table of claims
(:mod:`agentrt.tools.claim_table`). The call that reaches the tool takes it, and is answered from the
speculation if name and arguments are still equal.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from ..concurrency.clock import monotonic
from ..concurrency.threads import on_event_loop
from ..reports.events import CallClaimed, CallMissed, DraftUnclaimed, SpeculationStarted, SpeculationWasted
from ..reports.reporter import Reporter
from ..reports.tracing import SpanObserver
from .speculation import Speculation

R = TypeVar("R")
_WOULD_BLOCK = "waiting for it would have blocked an event loop"


class TurnRecorder:
    """Turns the runs, hits, misses and waste of one turn into events, and into spans with ``spans``."""

    def __init__(self, reporter: Reporter, turn: int, spans: SpanObserver | None = None) -> None:
        """``turn`` is the turn's number from :meth:`Reporter.next_turn`."""
        self._reporter = reporter
        self._turn = turn
        self._spans = spans

    def running(self, speculation: Speculation) -> AbstractContextManager[None]:
        """Note that ``speculation`` begins, and return the block that starts it."""
        draft, cost = speculation.draft, speculation.cost
        self._reporter.note(
            SpeculationStarted(self._turn, draft.tool, draft.predictor, cost, speculation.number)
        )
        return nullcontext() if self._spans is None else self._spans.running(self._turn, speculation.number)

    def calling(
        self, tool: str, call_id: str | None, speculation: Speculation | None
    ) -> AbstractContextManager[None]:
        """Return the block of a call that has reached ``tool``, and may be answered by ``speculation``."""
        if self._spans is None:
            return nullcontext()
        run = None if speculation is None else speculation.number
        return self._spans.calling(self._turn, tool, call_id, run)

    def claimed(self, speculation: Speculation, *, tool_s: float, waited_s: float) -> None:
        """Note a hit."""
        self._reporter.note(
            CallClaimed(
                self._turn,
                speculation.draft.tool,
                tool_s,
                waited_s,
                speculation.draft.draft_s,
                speculation.draft.predictor,
                speculation.cost,
                speculation.number,
            )
        )

    def missed(self, tool: str, *, tool_s: float, reason: str, draft_s: float | None = None) -> None:
        """Note a miss."""
        self._reporter.note(CallMissed(self._turn, tool, tool_s, reason, draft_s))

    def unclaimed(self, speculation: Speculation, reason: str, *, called: bool, made: bool) -> None:
        """Note a right draft whose speculation its call did not claim."""
        draft = speculation.draft
        why = speculation.lost_because or reason
        self._reporter.note(DraftUnclaimed(self._turn, draft.tool, draft.predictor, why, called, made))

    def wasted(self, speculation: Speculation, reason: str) -> None:
        """Note a speculation that was not claimed."""
        self._reporter.note(
            SpeculationWasted(
                self._turn,
                speculation.draft.tool,
                speculation.seconds,
                speculation.lost_because or reason,
                speculation.draft.predictor,
                speculation.cost,
                speculation.number,
                speculation.discloses,
            )
        )


@dataclass(frozen=True, slots=True)
class PendingClaim:
    """One call of the model's answer, with the speculation that may answer it.

    ``speculation`` is None for a miss, and ``reason`` then says why. ``key`` is the canonical key of the call
    as the model wrote it: a call that arrives with other arguments, because a person or a middleware edited
    them, does not match, and the tool runs. ``draft_s`` is when in the turn the call was drafted, if it was
    drafted and not run speculatively. ``call_id`` is the id that the model's answer gives the call.
    ``arguments`` are those of a call whose tool discloses them.
    """

    key: str | None
    speculation: Speculation | None
    recorder: TurnRecorder
    reason: str = ""
    draft_s: float | None = None
    call_id: str | None = None
    arguments: Mapping[str, Any] | None = None

    def missed(self, reason: str) -> PendingClaim:
        """Return the pending claim of the same call as a miss."""
        return self if self.speculation is None else replace(self, speculation=None, reason=reason)

    def drop_unclaimed(self, reason: str, *, called: bool = False, made: bool = True) -> None:
        """Drop the speculation, if there is one, of a call that could not claim it.

        ``called`` says that the call has reached the tool, which records a miss; ``made`` False, that it was
        not made at all.
        """
        if self.speculation is not None:
            self.recorder.unclaimed(self.speculation, reason, called=called, made=made)
            self.speculation.drop(reason)


def claim(
    pending: PendingClaim | None,
    tool: str,
    key: str | None,
    run: Callable[[], R],
    complete: Callable[[Any], R] | None = None,
) -> R:
    """Answer a call from its speculation, or else with ``run()``. Blocks, but never an event loop.

    ``pending`` None runs the tool and records nothing.
    ``key`` is the canonical key of the call as it reached the tool; without one, nothing matches.
    ``complete`` turns the speculation's result into the answer; its error is the call's own error, because
    its effect may have happened. On an event loop's thread only a finished speculation is used; in other
    threads an unfinished one is waited for, unless it needs a loop to proceed.
    """
    if pending is None:
        return run()
    with pending.recorder.calling(tool, pending.call_id, pending.speculation):
        speculation, reason = _match(pending, key)
        if speculation is not None and not speculation.done and (speculation.needs_loop or on_event_loop()):
            pending.drop_unclaimed(_WOULD_BLOCK, called=True)
            speculation, reason = None, _WOULD_BLOCK
        if speculation is not None:
            called_at = monotonic()
            outcome = speculation.result()
            if outcome.usable:
                with _recorded_claim(pending, speculation, called_at):
                    return outcome.value if complete is None else complete(outcome.value)
            reason = outcome.reason
        with _recorded_miss(pending, tool, reason):
            return run()


async def aclaim(
    pending: PendingClaim | None,
    tool: str,
    key: str | None,
    run: Callable[[], Awaitable[R]],
    complete: Callable[[Any], Awaitable[R]] | None = None,
) -> R:
    """:func:`claim` for coroutines: an unfinished speculation is awaited."""
    if pending is None:
        return await run()
    with pending.recorder.calling(tool, pending.call_id, pending.speculation):
        speculation, reason = _match(pending, key)
        if speculation is not None:
            called_at = monotonic()
            outcome = await speculation.aresult()
            if outcome.usable:
                with _recorded_claim(pending, speculation, called_at):
                    return outcome.value if complete is None else await complete(outcome.value)
            reason = outcome.reason
        with _recorded_miss(pending, tool, reason):
            return await run()


def _match(pending: PendingClaim, key: str | None) -> tuple[Speculation | None, str]:
    if pending.speculation is None:
        return None, pending.reason
    why = pending.speculation.why_unusable()
    if why is not None:
        return None, why
    if key is not None and key == pending.key:
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
    if pending.speculation is not None:
        pending.speculation.drop(reason)
    started = monotonic()
    try:
        yield
    finally:
        pending.recorder.missed(tool, tool_s=monotonic() - started, reason=reason, draft_s=pending.draft_s)
