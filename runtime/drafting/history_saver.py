"""Loads and saves the histories of apps in the background: no request waits for the disk."""

from __future__ import annotations

import logging
import threading
import time
from array import array
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeAlias

from .history_store import MAX_TOKENS, HistoryStore
from .suffix_index import SEPARATOR

logger = logging.getLogger(__name__)

_SAVE_DELAY_S: Final = 5.0
"""Seconds within which answers are saved together, so that a busy app does not write a file per answer."""
_CLOSE_S: Final = 10.0

OnLoaded: TypeAlias = Callable[[Sequence[int]], None]
_Answers: TypeAlias = dict[str, "array[int]"]


class HistorySaver:
    """A thread that loads and saves histories. Thread-safe.

    Where the disk fails there is one warning, and histories are kept in memory only.
    """

    def __init__(self, store: HistoryStore, save_delay_s: float = _SAVE_DELAY_S) -> None:
        """The thread starts with the first call, and runs until :meth:`close`."""
        self._store = store
        self._save_delay_s = save_delay_s
        self._changed = threading.Condition()
        self._loads: list[tuple[str, OnLoaded]] = []
        self._answers: _Answers = defaultdict(lambda: array("i"))
        self._save_at = 0.0
        self._closing = False
        self._warned = False
        self._thread: threading.Thread | None = None

    def load(self, app: str, on_loaded: OnLoaded) -> None:
        """Load the answers of ``app``; if there are any, hand them to ``on_loaded`` on this object's thread.

        They are what :meth:`HistoryStore.load` returns.
        """
        with self._changed:
            self._loads.append((app, on_loaded))
            self._wake()

    def save(self, app: str, answer: Sequence[int]) -> None:
        """Save an answer of ``app`` within seconds, and when this object is closed."""
        with self._changed:
            if not self._answers:
                self._save_at = time.monotonic() + self._save_delay_s
            unsaved = self._answers[app]
            unsaved.extend(answer)
            unsaved.append(SEPARATOR)
            if len(unsaved) > 2 * MAX_TOKENS:  # the disk does not respond
                del unsaved[:-MAX_TOKENS]
            self._wake()

    def close(self) -> None:
        """Save what was not saved yet, and end the thread. May be called again."""
        with self._changed:
            self._closing = True
            self._changed.notify()
            thread = self._thread
        if thread is None:
            return
        thread.join(_CLOSE_S)
        if thread.is_alive():
            logger.warning("The disk of the histories does not respond; the last answers may not be saved.")

    def _wake(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="agentrt-histories", daemon=True)
            self._thread.start()
        self._changed.notify()

    def _run(self) -> None:
        while (work := self._next_work()) is not None:
            for step in work:
                self._do(step)

    def _next_work(self) -> list[Callable[[], None]] | None:
        """Wait for histories to load, or for answers whose time to be saved has come; None at the end."""
        with self._changed:
            while True:
                left_s = self._save_at - time.monotonic()
                if self._loads or (self._answers and (self._closing or left_s <= 0)):
                    # A load may be of an app with answers that are not saved yet.
                    work: list[Callable[[], None]] = [
                        *(partial(self._store.add, *unsaved) for unsaved in self._answers.items()),
                        *(partial(self._load, *wanted) for wanted in self._loads),
                    ]
                    self._answers.clear()
                    self._loads.clear()
                    return work
                if self._closing:
                    return None
                self._changed.wait(left_s if self._answers else None)

    def _load(self, app: str, on_loaded: OnLoaded) -> None:
        answers = self._store.load(app)
        if len(answers):
            on_loaded(answers.tolist())

    def _do(self, step: Callable[[], None]) -> None:
        try:
            step()
        except OSError as error:
            if not self._warned:
                self._warned = True
                logger.warning(
                    "The history folder cannot be used (%s): answers are drafted from until the runtime is "
                    "closed only. Free disk space there, make it writable, or leave out "
                    "RuntimeConfig.history_folder.",
                    error,
                )
