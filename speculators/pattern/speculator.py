"""`PatternSpeculator`: predictions from the calls that this user's agents made before."""

from __future__ import annotations

import logging
import os
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import NoneType
from typing import Any, TypeVar

from agentrt.argument_checks import check_setting
from agentrt.calls import ToolCall
from agentrt.concurrency.threads import wait_for
from agentrt.drafts import DraftRequest
from agentrt.errors import ConfigurationError, HistoryStoreError

from .events import read_events
from .memory import PatternMemory
from .next_call import PRIOR, NextCallModel, PredictedCall
from .store import HistoryStore

T = TypeVar("T")
_MAX_QUEUED = 64
_KEPT_MODELS = 16
logger = logging.getLogger("agentrt")


class PatternSpeculator:
    """Predicts the next call without a language model, from the calls that were made before.

    It learns online, from each answer of the main model: which tool follows in which context, and where each
    argument came from (a field of an earlier result, a word of the request, an earlier argument, the next
    item of a list, a constant). An argument is copied only from where those of earlier calls came from. A
    prediction takes some milliseconds in a worker thread and costs nothing, so the number of samples (λ) does
    not matter; ``max_drafts`` and ``min_probability`` bound the drafts.

    With a ``store`` it keeps what it has learned in a SQLite file that only its owner can read; see
    :class:`~agentrt.speculators.pattern.store.HistoryStore` for the contents. Use one store per user: what
    was learned from one user can be predicted for another.
    """

    name = "pattern"
    shares_cores = False
    looks_ahead = True
    """Many calls can be predicted before the result of the one before: the next item of a list, say."""

    def __init__(
        self,
        store: str | os.PathLike[str] | None = None,
        *,
        max_drafts: int = 6,
        min_probability: float = 0.2,
    ) -> None:
        """Open the ``store``, or learn for this process only.

        ``max_drafts`` is the most calls predicted in a turn, ``min_probability`` how likely each must be,
        and 0.3 at least where the tool was never called.

        Raises:
            HistoryStoreError: the store cannot be used: it is damaged, locked, or another user's.
            ConfigurationError: ``max_drafts`` is below 1, or ``min_probability`` is not between 0 and 1.
        """
        check_setting("store", store, (str, os.PathLike, NoneType), "the path of a file")
        check_setting("max_drafts", max_drafts, int, "a whole number of at least 1")
        check_setting("min_probability", min_probability, (int, float), "a number between 0 and 1")
        if max_drafts < 1 or not 0 < min_probability < 1:
            raise ConfigurationError(
                f"max_drafts is {max_drafts} and min_probability {min_probability}. Use at least 1, and a "
                "number between 0 and 1."
            )
        self._max_drafts = max_drafts
        self._min_probability = min_probability
        self._memory = PatternMemory(PRIOR)
        self._store = HistoryStore(Path(store)) if store is not None else None
        if self._store is not None:
            try:
                self._store.load(self._memory)
            except BaseException:
                self._store.close()
                raise
        # Predicting and learning share the memory, which is not thread-safe: one thread does both.
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="agentrt pattern")
        self._queued = threading.BoundedSemaphore(_MAX_QUEUED)
        self._models: OrderedDict[int, tuple[Sequence[Mapping[str, Any]], NextCallModel]] = OrderedDict()
        self._warned = False

    async def drafts(self, request: DraftRequest) -> AsyncIterator[ToolCall]:
        """Yield the likeliest calls, best first."""
        predictions = self._submit(lambda: self._predict(request))
        if predictions is None:
            return
        try:
            await wait_for(predictions)
        finally:
            predictions.cancel()
        for predicted in predictions.result():
            yield ToolCall(predicted.tool, predicted.arguments)

    def learn(self, request: DraftRequest, calls: Sequence[ToolCall]) -> None:
        """Learn in the worker thread that ``request`` was answered with ``calls``; returns at once."""
        made = [(call.name, dict(call.arguments)) for call in calls]
        self._submit(lambda: self._learn(request, made))

    def forget(self) -> None:
        """Delete everything that was learned, also from the store; blocks until the worker has done so."""
        self._worker.submit(self._forget).result()

    def close(self) -> None:
        """Finish learning and close the store; there are no predictions afterwards."""
        self._worker.shutdown(wait=True)
        if self._store is not None:
            self._store.close()

    def _submit(self, work: Callable[[], T]) -> Future[T] | None:
        """Queue work for the worker thread; None if it is closed or 64 pieces are queued."""
        if not self._queued.acquire(blocking=False):
            return None
        try:
            future = self._worker.submit(work)
        except RuntimeError:  # closed, or the interpreter is shutting down
            self._queued.release()
            return None
        future.add_done_callback(lambda _: self._queued.release())
        return future

    # In the worker thread.

    def _model(self, request: DraftRequest) -> NextCallModel:
        """Return the model of a request, which first predicts and then learns."""
        known = self._models.get(id(request.messages))
        if known is not None and known[0] is request.messages:
            return known[1]
        model = NextCallModel(self._memory, read_events(request.messages), request.tools, request.speculable)
        self._models[id(request.messages)] = request.messages, model
        while len(self._models) > _KEPT_MODELS:
            self._models.popitem(last=False)
        return model

    def _predict(self, request: DraftRequest) -> list[PredictedCall]:
        return self._model(request).predictions(
            max_drafts=self._max_drafts, min_probability=self._min_probability
        )

    def _learn(self, request: DraftRequest, calls: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
        self._model(request).learn(calls)
        self._models.pop(id(request.messages), None)
        if self._store is not None:
            try:
                self._store.save(self._memory)
            except HistoryStoreError as error:  # the next save writes these changes too
                if not self._warned:
                    logger.warning("the pattern speculator cannot save what it learns: %s", error)
                self._warned = True

    def _forget(self) -> None:
        self._memory = PatternMemory(PRIOR)
        self._models.clear()
        if self._store is not None:
            self._store.clear()
