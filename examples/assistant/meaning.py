"""Search by meaning: texts by the vectors of their passages, which an embedding model computes."""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from agentrt import Priority
from agentrt.errors import AgentRTError, InvalidRequestError

if TYPE_CHECKING:
    from agentrt.runtime import EmbeddingModel

Vectors = NDArray[np.float32]
"""[passages, dimensions], each of length 1."""

_BATCH = 16
"""Passages of one request, so that a question does not wait long behind them."""

_log = logging.getLogger(__name__)


class MeaningIndex:
    """Numbered texts by meaning. Their vectors are computed on a thread, while other things are done.

    A search knows the texts whose vectors have been computed by then. Thread-safe.
    """

    def __init__(self, model: EmbeddingModel) -> None:
        """The threads that compute end with the process, or by :meth:`close`."""
        self._model = model
        self._lock = threading.Lock()
        self._pending: dict[int, str] = {}
        self._vectors: dict[int, Vectors] = {}
        self._working = False
        self._is_idle = threading.Event()
        self._is_idle.set()

    def put(self, number: int, text: str) -> None:
        """Add a text, or replace the one with this number."""
        with self._lock:
            self._pending[number] = text
            self._vectors.pop(number, None)
            if self._working:
                return
            self._working = True
            self._is_idle.clear()
        threading.Thread(target=self._work, name="agentrt-meaning", daemon=True).start()

    def remove(self, number: int) -> None:
        with self._lock:
            self._pending.pop(number, None)
            self._vectors.pop(number, None)

    def search(self, query: str, limit: int) -> list[int]:
        """The numbers of at most ``limit`` texts, the one with the passage that means most alike first."""
        try:
            with ThreadPoolExecutor(1) as thread:  # this one may run an event loop
                asked = thread.submit(self._embed, [query], Priority.REACTIVE).result()[0]
        except InvalidRequestError:  # empty or too long: its words are searched
            return []
        with self._lock:
            nearness = {number: float((rows @ asked).max()) for number, rows in self._vectors.items()}
        return sorted(nearness, key=lambda number: -nearness[number])[:limit]

    def wait(self) -> None:
        """Wait until the vectors of all texts are computed."""
        self._is_idle.wait()

    def close(self) -> None:
        """Forget all texts; a thread that computes ends soon."""
        with self._lock:
            self._pending.clear()
            self._vectors.clear()

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._pending:
                    self._working = False
                    self._is_idle.set()
                    return
                number, text = next(iter(self._pending.items()))
            try:
                rows = self._rows(text)
            except AgentRTError as error:
                _log.warning("a text cannot be found by its meaning: %s", error)
                rows = None
            with self._lock:
                if self._pending.get(number) == text:  # it was neither replaced nor removed
                    del self._pending[number]
                    if rows is not None:
                        self._vectors[number] = rows

    def _rows(self, text: str) -> Vectors | None:
        passages = list(_passages(text, self._model.max_tokens))
        if not passages:
            return None
        batches = [passages[start : start + _BATCH] for start in range(0, len(passages), _BATCH)]
        return np.concatenate([self._embed(batch, Priority.PROACTIVE) for batch in batches])

    def _embed(self, texts: Sequence[str], priority: Priority) -> Vectors:
        return np.stack(asyncio.run(self._model.aembed(texts, priority=priority)).vectors)


def _passages(text: str, max_tokens: int) -> Iterator[str]:
    """Yield the paragraphs of ``text``, in pieces that surely have at most ``max_tokens`` tokens.

    A token has at least a byte; some tokens stand around each text.
    """
    most = max(4, max_tokens - 8)  # a character has up to 4
    for paragraph in re.split(r"\n\s*\n", text):
        rest = paragraph.strip()
        while rest:
            piece = rest.encode()[:most].decode("utf-8", "ignore")
            if len(piece) < len(rest) and " " in piece:
                piece = piece.rpartition(" ")[0]
            yield piece
            rest = rest[len(piece) :].strip()
