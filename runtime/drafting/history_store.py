"""What apps have generated, on disk, to retrieve drafts from after a restart, too (sd.npu §3.1)."""

from __future__ import annotations

import hashlib
import logging
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Final, TypeVar

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
_TABLES: Final = """
CREATE TABLE IF NOT EXISTS answer (
    id INTEGER PRIMARY KEY, app BLOB NOT NULL, checksum BLOB NOT NULL, tokens BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS answer_by_app ON answer (app, id);
"""
_FORMER: Final = "*.answers"
"""Files of the format before this one, in a folder for each tokenizer."""

Tokens = NDArray[np.int32]
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
        self._former = folder / self._tokenizer.hex()[:16]
        self.file: Final = folder / f"{self._former.name}.sqlite"
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
        self._remove_former()

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

    def _remove_former(self) -> None:
        if self._former.is_dir():
            for file in [*self._former.glob(_FORMER), self._former / ".lock"]:
                file.unlink(missing_ok=True)
            with suppress(OSError):  # it has other files
                self._former.rmdir()


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
