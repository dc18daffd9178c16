"""What apps have generated, on disk, to retrieve drafts from after a restart, too (sd.npu §3.1).

It is loaded and saved in the background: no request waits for the disk.
"""

from __future__ import annotations

import hashlib
import logging
import sqlite3
import threading
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from agentrt.concurrency.worker import Worker
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
                # In a damaged row they can be of other types.
                "SELECT CAST(checksum AS BLOB), CAST(tokens AS BLOB) FROM answer WHERE app = ? ORDER BY id",
                (_digest(app.encode()),),
            )
        )
        whole = [
            tokens
            for checksum, tokens in rows
            if tokens is not None and checksum == self._checksum(app, tokens)
        ]
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
            options = {"application_id": _APPLICATION_ID, "version": _VERSION}
            with closing(
                PrivateDatabase(self.file, _TABLES, **options, timeout_s=_TIMEOUT_S, checked=False)
            ) as database:
                return use(database)
        except (OSError, OtherFormatError, sqlite3.Error, UnicodeDecodeError) as error:
            is_damaged = (
                problem_of(error) is DatabaseProblem.DAMAGED
                if isinstance(error, sqlite3.Error)
                else isinstance(error, OtherFormatError | UnicodeDecodeError)
            )
            if not again or not is_damaged:
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


def _drop_oldest(change: sqlite3.Connection, app: bytes) -> None:
    """Drop what is too much of an app, and the apps that were saved longest ago."""
    left = MAX_TOKENS
    newest_first = change.execute(
        "SELECT id, coalesce(length(CAST(tokens AS BLOB)), 0) FROM answer WHERE app = ? ORDER BY id DESC",
        (app,),
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
        self._worker = Worker("agentrt-histories")
        self._lock = threading.Lock()
        self._answers: dict[str, array[int]] = {}
        self._at_once = threading.Event()  # answers that are not saved yet wait no longer
        self._warned = False

    def load(self, app: str, on_loaded: OnLoaded) -> None:
        """Load the answers of ``app``; if there are any, hand them to ``on_loaded`` on this object's thread.

        They are what :meth:`HistoryStore.load` returns.
        """
        self._worker.submit(partial(self._load, app, on_loaded))
        self._at_once.set()  # some of them may not be saved yet

    def save(self, app: str, answer: Sequence[int]) -> None:
        """Save an answer of ``app`` within seconds, and when this object is closed."""
        with self._lock:
            if not self._answers:
                self._at_once.clear()
                self._worker.submit(self._save)
            unsaved = self._answers.setdefault(app, array("i"))
            unsaved.extend(answer)
            unsaved.append(SEPARATOR)
            if len(unsaved) > 2 * MAX_TOKENS:  # the disk does not respond
                del unsaved[:-MAX_TOKENS]

    def close(self) -> None:
        """Save what was not saved yet, and end the thread. May be called again."""
        self._at_once.set()
        if not self._worker.close(_CLOSE_S):
            logger.warning("The disk of the histories does not respond; the last answers may not be saved.")

    def _load(self, app: str, on_loaded: OnLoaded) -> None:
        with self._warning_once():
            answers = self._store.load(app)
            if len(answers):
                on_loaded(answers.tolist())

    def _save(self) -> None:
        self._at_once.wait(self._save_delay_s)
        with self._lock:
            answers, self._answers = self._answers, {}
        for app, unsaved in answers.items():
            with self._warning_once():
                self._store.add(app, unsaved)

    @contextmanager
    def _warning_once(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if not self._warned:
                self._warned = True
                logger.warning(
                    "The history folder cannot be used (%s): answers are drafted from until the runtime is "
                    "closed only. Free disk space there, make it writable, or leave out "
                    "RuntimeConfig.history_folder.",
                    error,
                )
