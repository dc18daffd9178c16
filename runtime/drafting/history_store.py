"""What apps have generated, on disk, to retrieve drafts from after a restart, too (sd.npu §3.1).

It is loaded and saved in the background: no request waits for the disk.
"""

from __future__ import annotations

import hashlib
import logging
import sqlite3
import threading
import time
from array import array
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from agentrt.errors import HistoryStoreError
from agentrt.private_database import (
    DatabaseProblem,
    OtherFormatError,
    PrivateDatabase,
    problem_of,
    set_aside,
)

from .suffix_index import SEPARATOR

logger = logging.getLogger(__name__)

MAX_TOKENS: Final = 131_072
"""Tokens that are kept of one app: 512 KiB."""
MAX_APPS: Final = 64
"""Apps of which answers are kept for one tokenizer, those saved last: 32 MiB."""

_APPLICATION_ID: Final = 0x41525448
"""``ARTH``"""
_VERSION: Final = 1
_TIMEOUT_S: Final = 5.0
_SAVE_DELAY_S: Final = 5.0
"""Seconds within which answers are saved together, so that a busy app does not write a file per answer."""
_CLOSE_S: Final = 10.0
_TABLES: Final = """
CREATE TABLE IF NOT EXISTS answer (
    id INTEGER PRIMARY KEY, app BLOB NOT NULL, checksum BLOB NOT NULL, tokens BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS answer_by_app ON answer (app, id);
"""

Tokens = NDArray[np.int32]
OnLoaded: TypeAlias = Callable[[Sequence[int]], None]
_T = TypeVar("_T")


class HistoryStore:
    """A SQLite file of answers for each tokenizer, in a folder. Several processes may share it.

    Only the user can read it. Every answer has a checksum that covers the app's name and the tokenizer: one
    that is damaged, or of another app or tokenizer, is never used. A file that is no such database is
    renamed, with a warning, and the histories begin anew.
    """

    def __init__(self, folder: Path, tokenizer: bytes) -> None:
        """``folder`` is created at the first write. ``tokenizer`` is :attr:`Tokenizer.fingerprint`."""
        self._tokenizer = _digest(tokenizer)
        self.file: Final = folder / f"{self._tokenizer.hex()[:16]}.sqlite"
        """The file of this tokenizer."""

    def load(self, app: str) -> Tokens:
        """Return the newest answers of ``app``, the newest last, each followed by :data:`SEPARATOR`.

        Raises:
            HistoryStoreError: they cannot be read.
        """
        if not self.file.exists():
            return np.empty(0, np.int32)
        rows = self._use(
            lambda database: database.execute(
                "SELECT checksum, tokens FROM answer WHERE app = ? ORDER BY id", (_digest(app.encode()),)
            )
        )
        whole = [tokens for checksum, tokens in rows if checksum == self._checksum(app, tokens)]
        if len(whole) < len(rows):
            logger.warning("%d answers in %s are damaged and not used.", len(rows) - len(whole), self.file)
        ends = np.array([SEPARATOR], np.int32)
        parts = [part for tokens in whole for part in (np.frombuffer(tokens, "<i4").astype(np.int32), ends)]
        return np.concatenate(parts) if parts else np.empty(0, np.int32)

    def add(self, app: str, answers: Sequence[int]) -> None:
        """Add answers, each followed by :data:`SEPARATOR`, to those of ``app``; drop the oldest beyond 128k.

        Raises:
            HistoryStoreError: they cannot be written; the earlier ones are kept.
        """
        tokens = np.array(answers, "<i4")
        each = np.split(tokens, np.flatnonzero(tokens == SEPARATOR) + 1)[:-1]
        new = [answer[:-1][-MAX_TOKENS + 1 :].tobytes() for answer in each]
        key = _digest(app.encode())
        rows = [(key, self._checksum(app, answer), answer) for answer in new]

        def write(database: PrivateDatabase) -> None:
            with database.change(synced=False) as change:  # closing the file syncs it
                change.executemany("INSERT INTO answer (app, checksum, tokens) VALUES (?, ?, ?)", rows)
                _drop_oldest(change, key)

        self._use(write)

    def _use(self, use: Callable[[PrivateDatabase], _T], *, again: bool = True) -> _T:
        """Return what ``use`` returns; with a new database where the present one is damaged."""
        try:
            self.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with closing(_opened(self.file)) as database:
                return use(database)
        except (OSError, OtherFormatError, sqlite3.Error, UnicodeDecodeError) as error:
            if not again or not _is_refused(error):
                raise HistoryStoreError(
                    f"{self.file} cannot be used: {error}. Free disk space, or use another history_folder."
                ) from error
            aside = set_aside(self.file)
            logger.warning(
                "The stored answers in %s are damaged, or of another version, and not used. They are kept as "
                "%s; delete that file if you do not need it. Histories begin anew.",
                *(self.file, aside),
            )
        return self._use(use, again=False)

    def _checksum(self, app: str, tokens: bytes) -> bytes:
        return hashlib.blake2b(_digest(app.encode()) + tokens, key=self._tokenizer, digest_size=16).digest()


def _opened(file: Path) -> PrivateDatabase:
    return PrivateDatabase(
        file,
        _TABLES,
        application_id=_APPLICATION_ID,
        version=_VERSION,
        timeout_s=_TIMEOUT_S,
        checked=False,
    )


def _is_refused(error: Exception) -> bool:
    """Return whether what lies there is no database of this kind, or damaged."""
    if isinstance(error, sqlite3.Error):
        return problem_of(error) is DatabaseProblem.DAMAGED
    return isinstance(error, OtherFormatError | UnicodeDecodeError)


def _drop_oldest(change: sqlite3.Connection, app: bytes) -> None:
    """Drop what is too much of an app, and the apps that were saved longest ago."""
    left = MAX_TOKENS
    newest_first = change.execute(
        "SELECT id, length(tokens) FROM answer WHERE app = ? ORDER BY id DESC", (app,)
    )
    for id, size in newest_first.fetchall():
        left -= size // 4 + 1
        if left < 0:
            change.execute("DELETE FROM answer WHERE app = ? AND id <= ?", (app, id))
            break
    change.execute(
        "DELETE FROM answer WHERE app IN "
        "(SELECT app FROM answer GROUP BY app ORDER BY max(id) DESC LIMIT -1 OFFSET ?)",
        (MAX_APPS,),
    )


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=32).digest()


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
        self._answers: dict[str, array[int]] = defaultdict(lambda: array("i"))
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
