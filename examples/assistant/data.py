"""The folder the assistant works on, and private working copies of it."""

from __future__ import annotations

import datetime as dt
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from agentrt.errors import ConfigurationError

from .calendar import Calendar
from .files import Folder
from .mail import MailBox
from .notes import Notes

_PARTS = {
    "notes.db": "an SQLite file with a table notes(id INTEGER PRIMARY KEY, title TEXT, text TEXT)",
    "calendar.ics": "an exported calendar",
    "mail.mbox": "exported mail",
    "files": "a folder with text files",
}
_LARGEST_COPY = 500_000_000
_PREFIX = "agentrt-demo-"
_LOCK = "in-use.lock"


@dataclass(frozen=True)
class PersonalData:
    """What the assistant can reach."""

    notes: Notes
    calendar: Calendar
    mail: MailBox
    files: Folder

    @classmethod
    def open(cls, folder: Path, today: Callable[[], dt.date] = dt.date.today) -> Self:
        """Open the four parts in ``folder``; :class:`ConfigurationError` names what is missing or broken."""
        require_parts(folder)
        return cls(
            Notes(folder / "notes.db"),
            Calendar(folder / "calendar.ics", today),
            MailBox(folder / "mail.mbox"),
            Folder(folder / "files"),
        )

    def close(self) -> None:
        self.mail.close()
        self.files.close()


def require_parts(folder: Path) -> None:
    """Raise :class:`ConfigurationError` unless all four parts are there."""
    missing = [
        f"{name} ({what})"
        for name, what in _PARTS.items()
        if not ((folder / name).is_dir() if name == "files" else (folder / name).is_file())
    ]
    if missing:
        raise ConfigurationError(f"{folder} lacks {', '.join(missing)}. Put it there, or leave --data out.")


def copy_data(source: Path, target: Path) -> None:
    """Copy the four parts, and nothing else, so that a run cannot change the original.

    The notes are copied through SQLite, which also takes what is still in the write-ahead log.
    """
    require_parts(source)
    size = sum(
        file.lstat().st_size for name in _PARTS for file in (source / name, *(source / name).rglob("*"))
    )
    if size > _LARGEST_COPY:
        raise ConfigurationError(
            f"{source} holds {size // 1_000_000} MB; the demo copies it twice and accepts up to "
            f"{_LARGEST_COPY // 1_000_000} MB. Give a smaller folder, or use 'agentrt chat'."
        )
    target.mkdir()
    # Not read-only: such a connection would leave its log files behind in the user's folder.
    original = sqlite3.connect(source / "notes.db")
    copy = sqlite3.connect(target / "notes.db")
    try:
        original.backup(copy)
    except sqlite3.DatabaseError as error:
        raise ConfigurationError(
            f"cannot read {source / 'notes.db'}: {error}. It must be {_PARTS['notes.db']}."
        ) from error
    finally:
        copy.close()
        original.close()
    try:
        shutil.copy2(source / "calendar.ics", target)
        shutil.copy2(source / "mail.mbox", target)
        shutil.copytree(source / "files", target / "files", symlinks=True)
    except OSError as error:  # such as a file that this user may not read, or a pipe
        raise ConfigurationError(
            f"cannot copy {source}: {error}. Make its files readable, or give another folder."
        ) from error


@contextmanager
def workspace() -> Iterator[Path]:
    """A fresh temporary folder, removed at the end; those of killed runs are removed now.

    The owner holds a lock in its folder, which the operating system frees however the process ends.
    """
    _remove_abandoned(Path(tempfile.gettempdir()))
    with tempfile.TemporaryDirectory(prefix=_PREFIX, ignore_cleanup_errors=True) as name:
        folder = Path(name)
        lock = _lock(folder)
        try:
            yield folder
        finally:
            lock.close()


def _lock(folder: Path) -> sqlite3.Connection:
    # SQLite's file locks are the ones that the standard library offers on every system.
    connection = sqlite3.connect(folder / _LOCK, timeout=0)
    try:
        connection.execute("BEGIN EXCLUSIVE")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _remove_abandoned(parent: Path) -> None:
    for folder in parent.glob(f"{_PREFIX}*"):
        if not (folder / _LOCK).exists():
            continue  # another process is just making it
        with suppress(sqlite3.Error, OSError):  # in use, or another user's
            _lock(folder).close()
            shutil.rmtree(folder)
