"""Turn-ahead: the next call of the main model, made before this one has answered.

Beyond SpecTools, whose speedup stays below 2 because a turn hides either its tool or its generation
(Lemma 1): when a speculated tool has finished and the main model has not, the model is already asked what
comes next, on a history in which it has made that call. What it says is kept only if the next request really
turns out equal.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Hashable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

import anyio

from ._clock import monotonic
from .calls import ToolCall
from .config import TurnAhead
from .drafts import DraftRequest, Speculator
from .events import AheadKept, AheadStarted, AheadWasted
from .futures import Speculation
from .reporter import Reporter

if TYPE_CHECKING:
    from .turn import Turn

_MAX_WAITING = 64  # answers, of all runs, that nobody has asked for yet


class MainCall(Protocol):
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

    def after(self, call: ToolCall, result: Any) -> MainCall | None:
        """The request that follows if the model makes this call only, with this result; None if unclear."""
        ...

    def ask(self) -> AsyncGenerator[Any, None]:
        """Make the request; yield the answer, in pieces if it is streamed."""
        ...


def after_guess(request: DraftRequest, call: ToolCall) -> DraftRequest:
    """What predictors that look ahead are shown: that the model has made ``call``, not what it came to."""
    guessed = {"name": call.name, "arguments": json.dumps(dict(call.arguments), ensure_ascii=False)}
    made = {"id": f"ahead_{len(request.messages)}", "type": "function", "function": guessed}
    message = {"role": "assistant", "content": "", "tool_calls": [made]}
    return replace(request, messages=[*request.messages, message])


class Ahead:
    """One call of the main model made ahead, from the guess that it follows on until it is kept or discarded.

    It lives on one event loop.
    """

    turn: Turn
    """What is speculated beside the call."""

    def __init__(
        self, book: AheadBook, main: MainCall | None, guess: ToolCall, speculation: Speculation
    ) -> None:
        """``main`` is the request that ``guess`` answers; None until the one before it is known."""
        self.following: MainCall | None = None
        """The request, once it is known: when the guessed call has its result."""
        self.known = anyio.Event()
        self._book = book
        self._main = main
        self._guess = guess
        self._speculation = speculation
        self._scope = anyio.CancelScope()
        self._pieces: list[Any] = []
        self._news = anyio.Event()
        self._asked_at: float | None = None
        self._answered_at: float | None = None
        self._error: Exception | None = None
        self._over = False

    async def run(self, earlier: Ahead | None) -> None:
        """See the call through; ``earlier`` is the one that has to be known first, if there is one."""
        with self._scope:
            if earlier is not None:
                await earlier.known.wait()
                self._main = earlier.following
            await self._speculation.over()
            if self._over:  # discarded in the moment in which the run ended
                return
            value = self._speculation.peek()
            if self._main is not None and value.usable:
                self.following = self._main.after(self._guess, value.value)
            self.known.set()
            if self.following is None:
                self.discard("its history could not be told")
                return
            self.turn.go_on(self.following)
            await self._ask(self.following)

    async def _ask(self, main: MainCall) -> None:
        self._asked_at = monotonic()
        self._book.reporter.note(AheadStarted(self.turn.number))
        try:
            async with aclosing(main.ask()) as pieces:
                async for piece in pieces:
                    self._pieces.append(piece)
                    self._tell()
        except Exception as error:  # noqa: BLE001 - met by whoever keeps the answer, if anyone does
            self._error = error
        self._answered_at = monotonic()
        self._tell()

    def _tell(self) -> None:
        self._news.set()
        self._news = anyio.Event()

    @property
    def generation_s(self) -> float | None:
        """How long the model took to answer, if it has."""
        if self._asked_at is None or self._answered_at is None:
            return None
        return self._answered_at - self._asked_at

    async def answer(self) -> AsyncIterator[Any]:
        """Yield the pieces of the answer, as many as there are at once; raise what the call raised."""
        read = 0
        while True:
            news = self._news
            while read < len(self._pieces):
                yield self._pieces[read]
                read += 1
            if self._answered_at is not None:
                if self._error is not None:
                    raise self._error
                return
            await news.wait()

    def keep(self) -> bool:
        """Say that the request has really been made; False if the call has failed, or was not yet made."""
        if self._over or self._asked_at is None or self._error is not None:
            self.discard("the call made ahead had failed")
            return False
        self._over = True
        until = monotonic() if self._answered_at is None else self._answered_at
        self.turn.come_due()
        self._book.kept()
        self._book.reporter.note(AheadKept(self.turn.number, until - self._asked_at))
        return True

    def discard(self, reason: str) -> None:
        """Stop the call; without effect once it is kept."""
        if self._over:
            return
        self._over = True
        self.known.set()
        self._scope.cancel()
        self.turn.discard()
        if self._asked_at is not None:
            until = monotonic() if self._answered_at is None else self._answered_at
            self._book.wasted()
            self._book.reporter.note(AheadWasted(self.turn.number, until - self._asked_at, reason))


class AheadBook:
    """The calls made ahead whose guess was right and whose request has not come yet; and their budget."""

    def __init__(self, settings: TurnAhead | None, reporter: Reporter) -> None:
        """``settings`` None means that no call is made ahead."""
        self.reporter = reporter
        self._settings = settings
        self._balance = 0
        self._waiting: list[tuple[Hashable, Ahead]] = []

    @property
    def enabled(self) -> bool:
        """Whether calls are made ahead at all."""
        return self._settings is not None

    def allows(self, depth: int) -> bool:
        """Whether a call may be made ahead ``depth`` turns before it is due."""
        settings = self._settings
        return settings is not None and depth <= settings.depth and self._balance < settings.max_wasted

    def expect(self, scope: Hashable, ahead: Ahead) -> None:
        """Say that the model has made the call which ``ahead`` was told it would make."""
        self._waiting.append((scope, ahead))
        if len(self._waiting) > _MAX_WAITING:
            self._waiting.pop(0)[1].discard("its request did not come")

    def take(self, scope: Hashable, key: str) -> Ahead | None:
        """Return the call made ahead for this request; what else was made ahead for its run is discarded."""
        found = None
        for known, ahead in self._waiting:
            if known == scope and ahead.following is not None and ahead.following.key == key and ahead.keep():
                found = ahead
                break
        self.forget(scope, "the next request was another one")
        return found

    def forget(self, scope: Hashable, reason: str = "the run has ended") -> None:
        """Discard what was made ahead for a run and is not kept."""
        for known, ahead in self._waiting:
            if known == scope:
                ahead.discard(reason)
        self._waiting = [(known, ahead) for known, ahead in self._waiting if known != scope]

    def kept(self) -> None:
        """Count a call that was not in vain."""
        self._balance = max(0, self._balance - 1)

    def wasted(self) -> None:
        """Count a call that was in vain."""
        self._balance += 1
