"""Turn-ahead: the next request of the main model, sent before the current one is answered.

Beyond SpecTools, whose speedup stays below 2 because a turn hides either its tool or its generation
(Lemma 1): when a speculated tool has finished and the main model has not, the next request is sent with that
call and its result in the history. The answer is kept only if the real next request turns out equal.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, Callable, Generator, Hashable, Sequence
from concurrent.futures import Future
from contextlib import aclosing, suppress
from typing import Any

from ..calls import ToolCall
from ..concurrency.clock import monotonic
from ..concurrency.contained import contained
from ..concurrency.handover import Handover, produced_in_thread
from ..concurrency.tasks import CLEAN_UP_SECONDS, TaskSet
from ..concurrency.threads import loop_caller, wait_for
from ..config import TurnAhead
from ..errors import SpeculationError
from ..reports.events import AheadKept, AheadStarted, AheadWasted, WorkAbandoned
from ..reports.reporter import Reporter
from ..tools.speculation import Speculation
from .model_request import ModelRequest

_MAX_EXPECTED = 64  # ahead requests, over all runs, whose real request has not come yet


class AheadRequest:
    """One model request sent ahead, which follows a draft, until it is kept or discarded.

    It runs on one event loop; every other method may be called from any thread.
    """

    turn: Any
    """The turn that speculates during the request: a :class:`agentrt.turns.turn.Turn`, which uses this."""

    def __init__(
        self,
        table: AheadTable,
        draft: ToolCall,
        speculation: Speculation,
        *,
        main: ModelRequest | None,
        earlier: AheadRequest | None,
    ) -> None:
        """``main`` is the request that ``draft`` answers; or else ``earlier`` is, if that is itself ahead."""
        self.request: ModelRequest | None = None
        """The request; None until the drafted call has its result, and if there is no such request."""
        self.key = speculation.draft.key
        self._known: Future[None] = Future()
        self._table = table
        self._draft = draft
        self._speculation = speculation
        self._lock = threading.Lock()
        self._cancel: Callable[[], None] | None = None
        self._answer = Handover[Any]()
        self._sent_at: float | None = None
        self._answered_at: float | None = None
        self._error: Exception | None = None
        self._kept = self._discarded = False
        if earlier is None:
            self._follow(main)
        else:
            earlier._known.add_done_callback(lambda _: self._follow(earlier.request))

    def _follow(self, main: ModelRequest | None) -> None:
        """Set the request as soon as the speculation of the draft is over."""

        def resolve() -> None:
            outcome = self._speculation.peek()
            if main is not None and outcome.usable:
                with suppress(Exception):  # a result may be of any type; some cannot be put into a message
                    self.request = main.after(self._draft, outcome.value)
            self._known.set_result(None)

        # Called back before the speculation can be claimed: once its result is known, the request is.
        self._speculation.when_over(resolve)

    async def run(self) -> None:
        """Send the request when it is known, and collect the answer."""
        sending = TaskSet(self._note_abandoned)
        call_soon = loop_caller()
        self._cancel = lambda: call_soon(sending.cancel_all)
        sending.start(self._collect(), "a lookahead request")
        try:
            await sending.over()
        finally:
            sending.cancel_all()
            await sending.stop()

    async def _collect(self) -> None:
        error: Exception | None = SpeculationError("the ahead request was stopped. Send it again.")

        def failed(raised: BaseException) -> None:  # raised where the answer is read, if it is kept
            nonlocal error
            if isinstance(raised, Exception):
                error = raised
            else:
                error = SpeculationError(f"the ahead request raised {type(raised).__name__}. Send it again.")

        try:
            with contained(failed):
                await self._send()
                error = None
        finally:
            self._error = error
            self._answered_at = monotonic()
            self._answer.close(error)

    def _note_abandoned(self, name: str) -> None:
        self._table.reporter.note(WorkAbandoned(self.turn.number, name, CLEAN_UP_SECONDS))

    async def _send(self) -> None:
        if not self._discarded:  # it may have been before there was anything to cancel
            await wait_for(self._known)
        with self._lock:
            request = None if self._discarded else self.request
            if request is not None:
                self._sent_at = monotonic()
        if request is None:
            self.discard("its history is unknown")
            return
        self.turn.take_request(request)
        self._table.reporter.note(AheadStarted(self.turn.number))
        async with aclosing(_pieces(request)) as pieces:
            async for piece in pieces:
                self._answer.put(piece)

    @property
    def generation_s(self) -> float | None:
        """How long the model took to answer, in seconds; None if it has not answered."""
        if self._sent_at is None or self._answered_at is None:
            return None
        return self._answered_at - self._sent_at

    async def answer(self) -> AsyncGenerator[Any, None]:
        """Yield the pieces of the answer as they come.

        A request that fails before its first piece yields nothing; a later error is raised, as by any stream
        that breaks off. Leaving the iteration early stops the request.
        """
        yielded = False
        try:
            async with aclosing(self._answer.batches()) as batches:
                async for batch in batches:
                    for piece in batch:
                        yielded = True
                        yield piece
        except Exception:
            if yielded:
                raise
        finally:
            self.stop()

    def answer_blocking(self) -> Generator[Any, None, None]:
        """:meth:`answer` for code without an event loop."""
        yielded = False
        try:
            for batch in self._answer.batches_blocking():
                for piece in batch:
                    yielded = True
                    yield piece
        except Exception:
            if yielded:
                raise
        finally:
            self.stop()

    def stop(self) -> None:
        """Cancel the request: the rest of its answer is not read."""
        if self._cancel is not None:
            self._cancel()

    def keep(self) -> bool:
        """Keep the answer for the real request; return False if the ahead request has failed."""
        with self._lock:
            sent_at, until = self._sent_at, self._until()
            keeps = not self._discarded and self._error is None
            self._kept = self._kept or keeps
        if not keeps:
            self.discard("the ahead request failed")
            return False
        self.turn.set_depth(0)
        self._table.kept()
        self._table.reporter.note(AheadKept(self.turn.number, 0.0 if sent_at is None else until - sent_at))
        return True

    def discard(self, reason: str) -> None:
        """Stop the request; without effect once it is kept."""
        with self._lock:
            if self._kept or self._discarded:
                return
            self._discarded = True
            sent_at, until = self._sent_at, self._until()
        self.stop()
        self.turn.discard()
        if sent_at is not None:
            self._table.wasted()
            self._table.reporter.note(AheadWasted(self.turn.number, until - sent_at, reason))

    def _until(self) -> float:
        return monotonic() if self._answered_at is None else self._answered_at


def _pieces(request: ModelRequest) -> AsyncGenerator[Any, None]:
    """Send the request, in a thread of its own if that blocks, and yield the answer."""
    pieces = request.stream()
    if isinstance(pieces, Generator):
        blocking = pieces
        return produced_in_thread(lambda: blocking, name="agentrt ahead")
    return pieces


class AheadTable:
    """Ahead requests whose draft was right and whose real request has not come yet; and their budget.

    Thread-safe.
    """

    def __init__(self, settings: TurnAhead | None, reporter: Reporter) -> None:
        """``settings`` None disables turn-ahead."""
        self.reporter = reporter
        self._settings = settings
        self.enabled = settings is not None
        self._lock = threading.Lock()
        self._balance = 0
        self._expected: list[tuple[Hashable, AheadRequest]] = []

    def allows(self, depth: int) -> bool:
        """Whether a request may be sent ``depth`` turns ahead, where one wrong draft wastes as many."""
        settings = self._settings
        if settings is None or depth > settings.depth:
            return False
        return self._balance + depth <= settings.max_wasted

    def expect(self, scope: Hashable, ahead: AheadRequest) -> None:
        """Add an ahead request whose drafted call the model has made."""
        with self._lock:
            self._expected.append((scope, ahead))
            oldest = self._expected.pop(0)[1] if len(self._expected) > _MAX_EXPECTED else None
        if oldest is not None:
            oldest.discard("its request did not come")

    def take(self, scope: Hashable, key: str) -> AheadRequest | None:
        """Return the ahead request with this key, and discard the other ones of its run."""
        found = None
        for ahead in self._remove(scope):
            equal = ahead.request is not None and ahead.request.key == key
            if found is None and equal and ahead.keep():
                found = ahead
            else:
                ahead.discard("the next request was another one")
        return found

    def forget(self, scope: Hashable) -> None:
        """Discard the ahead requests of a run that has ended."""
        for ahead in self._remove(scope):
            ahead.discard("the run has ended")

    def _remove(self, scope: Hashable) -> list[AheadRequest]:
        with self._lock:
            removed = [ahead for known, ahead in self._expected if known == scope]
            self._expected = [(known, ahead) for known, ahead in self._expected if known != scope]
        return removed

    def kept(self) -> None:
        """Count a kept request in favour of the budget."""
        with self._lock:
            self._balance = max(0, self._balance - 1)

    def wasted(self) -> None:
        """Count a wasted request against the budget."""
        with self._lock:
            self._balance += 1


SendAhead = Callable[[ToolCall, Speculation, int], AheadRequest]
"""Sends the request that follows a draft, with its depth: by how many turns it is ahead."""


class AheadStarter:
    """Follows a turn's first speculation with a request sent ahead, at most one a turn. Thread-safe."""

    def __init__(self, table: AheadTable, send_ahead: SendAhead | None, depth: int) -> None:
        """``send_ahead`` None: the turn's request cannot be followed. ``depth`` is the turn's own."""
        self._table = table
        self._send_ahead = send_ahead
        self._depth = depth
        self._lock = threading.Lock()
        self._first: tuple[ToolCall, Speculation] | None = None
        self._ahead: AheadRequest | None = None
        self._begun = self._closed = False

    def started(self, draft: ToolCall, speculation: Speculation) -> None:
        """Take a started speculation; only the first one is followed."""
        with self._lock:
            if self._first is not None:
                return
            self._first = draft, speculation
        self._start_if_allowed()

    def set_depth(self, depth: int) -> None:
        """Lower the number of turns by which the turn is ahead, so that further requests may follow it."""
        with self._lock:
            self._depth = depth
            ahead = self._ahead
        if ahead is not None:
            ahead.turn.set_depth(depth + 1)
        self._start_if_allowed()

    def _start_if_allowed(self) -> None:
        with self._lock:
            depth = self._depth + 1
            first, send_ahead = self._first, self._send_ahead
            if first is None or send_ahead is None or self._begun or self._closed:
                return
            if not self._table.allows(depth):
                return
            self._begun = True
        ahead = send_ahead(*first, depth)
        with self._lock:
            if not self._closed:
                self._ahead = ahead
                return
        ahead.discard("the model answered meanwhile")

    def answered(self, keys: Sequence[str | None], scope: Hashable) -> None:
        """Take the keys of the calls that the model has made; expect the request if its draft was right."""
        with self._lock:
            ahead = self._ahead
            if ahead is None or keys != [ahead.key]:
                return
            self._ahead = None
        self._table.expect(scope, ahead)

    def close(self, reason: str) -> None:
        """Send no further request, and discard one that is not expected."""
        with self._lock:
            self._closed = True
            ahead, self._ahead = self._ahead, None
        if ahead is not None:
            ahead.discard(reason)
