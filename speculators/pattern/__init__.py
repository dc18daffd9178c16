"""Guesses from this user's own history: which calls follow which, and where their arguments come from."""

from __future__ import annotations

import logging
import os
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from agentrt.calls import ToolCall
from agentrt.concurrency.threads import wait_for
from agentrt.drafts import DraftRequest
from agentrt.errors import ConfigurationError, HistoryStoreError

from .calls import PRIOR, PredictedCall, Situation
from .history import read_history
from .memory import Memory
from .store import HistoryStore

T = TypeVar("T")
_MAX_WAITING = 64
_KEPT_SITUATIONS = 16
logger = logging.getLogger("agentrt")


class PatternSpeculator:
    """Guesses the next call without a model, from the calls that were made before.

    It learns online: from each answer of the main model which tool follows in which situation, and where
    each argument came from (a field of an earlier result, a word of the request, an earlier argument, the
    next item of a list, a value that keeps coming). A guess takes some milliseconds in a thread of its own
    and costs nothing, so the number of samples (λ) does not matter to it; ``guesses`` and ``least_chance``
    bound what it offers.

    With a ``store`` it keeps what it has learned in a SQLite file that only its owner can read; see
    :class:`~agentrt.speculators.pattern.store.HistoryStore` for what is in there. One store is for one
    user: what one has taught it, it may guess for the other.
    """

    name = "pattern"
    looks_ahead = True
    """What follows a call often needs nothing of its result: the next item of a list, what was asked for."""

    def __init__(
        self,
        store: str | os.PathLike[str] | None = None,
        *,
        predictions: int = 6,
        least_chance: float = 0.08,
    ) -> None:
        """Open the ``store``, or learn for this process only.

        ``guesses`` is the most calls to guess in a turn, ``least_chance`` how likely each must be.

        Raises:
            HistoryStoreError: the store cannot be used: it is damaged, locked, or somebody else's.
            ConfigurationError: ``guesses`` is below 1, or ``least_chance`` no share.
        """
        if predictions < 1 or not 0 < least_chance < 1:
            raise ConfigurationError(
                f"guesses is {predictions}, least_chance {least_chance}: use at least 1, and a share of 1."
            )
        self._guesses = predictions
        self._least_chance = least_chance
        self._memory = Memory(PRIOR)
        self._store = HistoryStore(Path(store)) if store is not None else None
        if self._store is not None:
            try:
                self._store.load(self._memory)
            except BaseException:
                self._store.close()
                raise
        # One thread for all that touches the memory, so that learning and guessing take turns.
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="agentrt pattern")
        self._waiting = threading.BoundedSemaphore(_MAX_WAITING)
        self._situations: OrderedDict[int, tuple[Sequence[Mapping[str, Any]], Situation]] = OrderedDict()
        self._warned = False

    async def drafts(self, request: DraftRequest) -> AsyncIterator[ToolCall]:
        """Yield the likeliest calls, best first."""
        guessed = self._submit(lambda: self._guess(request))
        if guessed is None:
            return
        try:
            await wait_for(guessed)
        finally:
            guessed.cancel()
        for predicted in guessed.result():
            yield ToolCall(predicted.tool, predicted.arguments)

    def learn(self, request: DraftRequest, calls: Sequence[ToolCall]) -> None:
        """Learn, soon and in the worker thread, that ``request`` was answered with ``calls``."""
        made = [(call.name, dict(call.arguments)) for call in calls]
        self._submit(lambda: self._learn(request, made))

    def forget(self) -> None:
        """Forget everything that was learned, in the store as well (waits for what is under way)."""
        self._worker.submit(self._forget).result()

    def close(self) -> None:
        """Keep what was learned and close the store; the predictor guesses nothing from then on."""
        self._worker.shutdown(wait=True)
        if self._store is not None:
            self._store.close()

    def _submit(self, work: Callable[[], T]) -> Future[T] | None:
        """Have the worker do it, unless it is closed or has too much to do already."""
        if not self._waiting.acquire(blocking=False):
            return None
        try:
            future = self._worker.submit(work)
        except RuntimeError:  # closed, or the interpreter is about to end
            self._waiting.release()
            return None
        future.add_done_callback(lambda _: self._waiting.release())
        return future

    # In the worker thread.

    def _situation(self, request: DraftRequest) -> Situation:
        """The situation of a request, which is guessed in first and learned from afterwards."""
        known = self._situations.get(id(request.messages))
        if known is not None and known[0] is request.messages:
            return known[1]
        situation = Situation(self._memory, read_history(request.messages), request.tools, request.speculable)
        self._situations[id(request.messages)] = request.messages, situation
        while len(self._situations) > _KEPT_SITUATIONS:
            self._situations.popitem(last=False)
        return situation

    def _guess(self, request: DraftRequest) -> list[PredictedCall]:
        return self._situation(request).predictions(most=self._guesses, least_chance=self._least_chance)

    def _learn(self, request: DraftRequest, calls: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
        self._situation(request).learn(calls)
        self._situations.pop(id(request.messages), None)
        if self._store is not None:
            try:
                self._store.save(self._memory)
            except HistoryStoreError as error:  # what was not kept now is kept the next time
                if not self._warned:
                    logger.warning("the pattern speculator cannot keep what it learns: %s", error)
                self._warned = True

    def _forget(self) -> None:
        self._memory = Memory(PRIOR)
        self._situations.clear()
        if self._store is not None:
            self._store.clear()
