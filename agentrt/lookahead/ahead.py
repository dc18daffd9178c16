"""Turn-ahead: the next call of the main model, made before this one has answered.

Beyond SpecTools, whose speedup stays below 2 because a turn hides either its tool or its generation
(Lemma 1): when a speculated tool has finished and the main model has not, the model is already asked what
comes next, on a history in which it has made that call. What it says is kept only if the next request really
turns out equal.
"""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Hashable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import aclosing, suppress
from dataclasses import replace
from typing import Any, Generic, Protocol, TypeVar

import anyio

from ..calls import ToolCall
from ..concurrency.clock import monotonic
from ..concurrency.threads import loop_caller, wait_for
from ..config import TurnAhead
from ..drafts import DraftRequest, Speculator
from ..errors import EarlyRunError
from ..reports.events import AheadKept, AheadStarted, AheadWasted
from ..reports.reporter import Reporter
from ..tools.speculation import Speculation

_MAX_WAITING = 64  # answers, of all runs, that nobody has asked for yet


class ModelRequest(Protocol):
    """One request of the main model, as an adapter can make it, before or when it is asked for."""

    @property
    def key(self) -> str:
        """Equal for requests that are equal but for the ids of calls."""
        ...

    @property
    def predictors(self) -> Sequence[Speculator]:
        """Who guesses what the model will call in its answer."""
        ...

    def request(self) -> DraftRequest:
        """What the predictors are shown."""
        ...

    def after(self, call: ToolCall, result: Any) -> ModelRequest | None:
        """The request that follows if the model makes this call only, with this result; None if unclear."""
        ...

    def ask(self) -> AsyncGenerator[Any, None]:
        """Make the request; yield the answer, in pieces if it is streamed."""
        ...


def after_draft(request: DraftRequest, call: ToolCall) -> DraftRequest:
    """What predictors that look ahead are shown: that the model has made ``call``, not what it came to."""
    guessed = {"name": call.name, "arguments": json.dumps(dict(call.arguments), ensure_ascii=False)}
    made = {"id": f"ahead_{len(request.messages)}", "type": "function", "function": guessed}
    message = {"role": "assistant", "content": "", "tool_calls": [made]}
    return replace(request, messages=[*request.messages, message], ahead=True)


class SpeculatingTurn(Protocol):
    """What a request made ahead needs of the turn that speculates beside it."""

    @property
    def number(self) -> int:
        """The turn's number in reports."""
        ...

    def go_on(self, main: ModelRequest) -> None:
        """Take the turn's own request, now that it is known."""
        ...

    def come_due(self, depth: int = 0) -> None:
        """Take note that the turn is now only ``depth`` turns ahead."""
        ...

    def discard(self) -> None:
        """Drop what the turn has started."""
        ...


TurnT = TypeVar("TurnT", bound=SpeculatingTurn)


class AheadRequest(Generic[TurnT]):
    """One call of the main model made ahead, from the guess that it follows on until it is kept or discarded.

    It is made on one event loop; everything else may be done from any thread.
    """

    turn: TurnT
    """What is speculated beside the call."""

    def __init__(
        self,
        book: AheadTable[TurnT],
        guess: ToolCall,
        speculation: Speculation,
        *,
        main: ModelRequest | None,
        earlier: AheadRequest[TurnT] | None,
    ) -> None:
        """``main`` is the request that ``guess`` answers; else ``earlier`` will know it."""
        self.following: ModelRequest | None = None
        """The request, if it is known: when the guessed call has its result."""
        self.key = speculation.key
        self._known: Future[None] = Future()
        self._book = book
        self._guess = guess
        self._speculation = speculation
        self._lock = threading.Lock()
        self._stop: Callable[[], None] | None = None
        self._pieces: list[Any] = []
        self._news: Future[None] = Future()
        self._asked_at: float | None = None
        self._answered_at: float | None = None
        self._error: Exception | None = None
        self._kept = self._discarded = False
        if earlier is None:
            self._follow(main)
        else:
            earlier._known.add_done_callback(lambda _: self._follow(earlier.following))

    def _follow(self, main: ModelRequest | None) -> None:
        def tell() -> None:
            outcome = self._speculation.peek()
            if main is not None and outcome.usable:
                with suppress(Exception):  # what a tool gave may be anything; what cannot be told is unknown
                    self.following = main.after(self._guess, outcome.value)
            self._known.set_result(None)

        # Called back before anyone can claim the run: whoever has its result finds its request here.
        self._speculation.when_over(tell)

    async def run(self) -> None:
        """See the call through."""
        with anyio.CancelScope() as scope:
            call_soon = loop_caller()
            self._stop = lambda: call_soon(scope.cancel)
            error: Exception | None = EarlyRunError("the call made ahead was stopped. Make it again.")
            try:
                await self._make()
                error = None
            except Exception as raised:  # noqa: BLE001 - met by whoever keeps the answer, if anyone does
                error = raised
            finally:
                self._error = error
                self._answered_at = monotonic()
                self._tell()

    async def _make(self) -> None:
        if not self._discarded:  # before it could be stopped
            await wait_for(self._known)
        with self._lock:
            following = None if self._discarded else self.following
            if following is not None:
                self._asked_at = monotonic()
        if following is None:
            self.discard("its history could not be told")
            return
        self.turn.go_on(following)
        self._book.reporter.note(AheadStarted(self.turn.number))
        async with aclosing(following.ask()) as pieces:
            async for piece in pieces:
                self._pieces.append(piece)
                self._tell()

    def _tell(self) -> None:
        news, self._news = self._news, Future()
        news.set_result(None)

    @property
    def generation_s(self) -> float | None:
        """How long the model took to answer, if it has."""
        if self._asked_at is None or self._answered_at is None:
            return None
        return self._answered_at - self._asked_at

    async def answer(self) -> AsyncGenerator[Any, None]:
        """Yield the pieces of the answer, as many as there are at once; raise what the call raised.

        Leaving the iteration early stops the call.
        """
        try:
            for piece, news in self._steps():
                if news is None:
                    yield piece
                else:
                    await wait_for(news)
        finally:
            self.leave()

    def answer_blocking(self) -> Generator[Any, None, None]:
        """:meth:`answer` for code without an event loop."""
        try:
            for piece, news in self._steps():
                if news is None:
                    yield piece
                else:
                    news.result()
        finally:
            self.leave()

    def _steps(self) -> Iterator[tuple[Any, Future[None] | None]]:
        """Yield each piece, and where there is none yet, what to wait for."""
        read = 0
        while True:
            # In this order: what comes after the first is told by it, what came before the second is read.
            news, complete = self._news, self._answered_at is not None
            for piece in self._pieces[read:]:
                read += 1
                yield piece, None
            if complete:
                break
            yield None, news
        if self._error is not None:
            raise self._error

    def leave(self) -> None:
        """Stop the call: nobody reads what else it says."""
        if self._stop is not None:
            self._stop()

    def keep(self) -> bool:
        """Say that the request has really been made; False if the call has failed already."""
        with self._lock:
            asked_at, until = self._asked_at, self._until()
            keeps = not self._discarded and self._error is None
            self._kept = self._kept or keeps
        if not keeps:
            self.discard("the call made ahead had failed")
            return False
        self.turn.come_due()
        self._book.kept()
        self._book.reporter.note(AheadKept(self.turn.number, 0.0 if asked_at is None else until - asked_at))
        return True

    def discard(self, reason: str) -> None:
        """Stop the call; without effect once it is kept."""
        with self._lock:
            if self._kept or self._discarded:
                return
            self._discarded = True
            asked_at, until = self._asked_at, self._until()
        self.leave()
        self.turn.discard()
        if asked_at is not None:
            self._book.wasted()
            self._book.reporter.note(AheadWasted(self.turn.number, until - asked_at, reason))

    def _until(self) -> float:
        return monotonic() if self._answered_at is None else self._answered_at


class AheadTable(Generic[TurnT]):
    """The calls made ahead whose guess was right and whose request has not come yet; and their budget.

    Thread-safe.
    """

    def __init__(self, settings: TurnAhead | None, reporter: Reporter) -> None:
        """``settings`` None means that no call is made ahead."""
        self.reporter = reporter
        self._settings = settings
        self._lock = threading.Lock()
        self._balance = 0
        self._waiting: list[tuple[Hashable, AheadRequest[TurnT]]] = []

    @property
    def enabled(self) -> bool:
        """Whether calls are made ahead at all."""
        return self._settings is not None

    def allows(self, depth: int) -> bool:
        """Whether a call may be made ahead ``depth`` turns before it is due."""
        settings = self._settings
        return settings is not None and depth <= settings.depth and self._balance < settings.max_wasted

    def expect(self, scope: Hashable, ahead: AheadRequest[TurnT]) -> None:
        """Say that the model has made the call which ``ahead`` was told it would make."""
        with self._lock:
            self._waiting.append((scope, ahead))
            oldest = self._waiting.pop(0)[1] if len(self._waiting) > _MAX_WAITING else None
        if oldest is not None:
            oldest.discard("its request did not come")

    def take(self, scope: Hashable, key: str) -> AheadRequest[TurnT] | None:
        """Return the call made ahead for this request; what else was made ahead for its run is discarded."""
        found = None
        for ahead in self._remove(scope):
            equal = ahead.following is not None and ahead.following.key == key
            if found is None and equal and ahead.keep():
                found = ahead
            else:
                ahead.discard("the next request was another one")
        return found

    def forget(self, scope: Hashable) -> None:
        """Discard what was made ahead for a run that has ended."""
        for ahead in self._remove(scope):
            ahead.discard("the run has ended")

    def _remove(self, scope: Hashable) -> list[AheadRequest[TurnT]]:
        with self._lock:
            removed = [ahead for known, ahead in self._waiting if known == scope]
            self._waiting = [(known, ahead) for known, ahead in self._waiting if known != scope]
        return removed

    def kept(self) -> None:
        """Count a call that was not in vain."""
        with self._lock:
            self._balance = max(0, self._balance - 1)

    def wasted(self) -> None:
        """Count a call that was in vain."""
        with self._lock:
            self._balance += 1
