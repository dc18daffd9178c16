"""What the assistant works on, and private working copies of it."""

from __future__ import annotations

import datetime as dt
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from agentrt.errors import ConfigurationError

from .calendar import Calendar
from .files import Folder
from .mail import MailBox
from .notes import Notes
from .sources import Mirror, Sources, enumerated

if TYPE_CHECKING:
    from agentrt.runtime import EmbeddingModel

    from .meaning import MeaningIndex

_LARGEST_COPY = 500_000_000
_PREFIX = "agentrt-demo-"
_LOCK = "in-use.lock"


@dataclass(frozen=True)
class PersonalData:
    """What the assistant can reach. What is absent is an empty part."""

    sources: Sources
    notes: Notes
    calendar: Calendar
    mail: MailBox
    files: Folder

    @classmethod
    def open(
        cls,
        *paths: Path,
        mirrors: Sequence[Mirror] = (),
        embedding: EmbeddingModel | None = None,
        today: Callable[[], dt.date] = dt.date.today,
    ) -> Self:
        """Open what is recognised in files and folders; :class:`ConfigurationError` if that is nothing.

        ``mirrors`` are of some of the folders. With ``embedding``, texts are searched by meaning, too.
        """
        sources = Sources(paths, mirrors)
        meanings: list[MeaningIndex | None] = [None, None, None]
        if embedding is not None:
            from .meaning import MeaningIndex

            meanings = [MeaningIndex(embedding) for _ in meanings]
        return cls(
            sources,
            Notes(sources, meanings[0]),
            Calendar(sources, today),
            MailBox(sources, meanings[1]),
            Folder(sources, meanings[2]),
        )

    def description(self) -> str:
        """Say in one sentence what is read."""
        calendars, events = self.calendar.size()
        others = "other text file" if len(self.sources.find()) > len(self.files.all()) else "text file"
        parts = [
            _count(len(self.notes.all()), "note"),
            _count(calendars, "calendar")
            and f"{_count(calendars, 'calendar')} with {_count(events, 'event') or 'no event'}",
            _count(len(self.mail.all()), "mail"),
            _count(len(self.files.all()), others),
        ]
        return f"Reads {enumerated([*filter(None, parts)] or ['nothing yet'])} in {self.sources}."

    def close(self) -> None:
        for part in (self.notes, self.mail, self.files):
            part.close()


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number > 1)}" if number else ""


def copy_data(paths: Sequence[Path], target: Path) -> None:
    """Copy what is recognised, and nothing else, so that a run cannot change the original."""
    sources = Sources(paths)
    found = sources.find()
    size = sum(source.size for source in found)
    if size > _LARGEST_COPY:
        raise ConfigurationError(
            f"{sources} holds {size // 1_000_000} MB; the demo copies it twice and accepts up to "
            f"{_LARGEST_COPY // 1_000_000} MB. Give less, or use 'agentrt chat'."
        )
    try:
        for source in found:
            copy = target / source.place
            copy.parent.mkdir(parents=True, exist_ok=True)
            if source.kind == "mail":  # the folders that make a Maildir, even if one is empty
                for name in ("cur", "new", "tmp"):
                    (copy.parent.parent / name).mkdir(exist_ok=True)
            shutil.copy2(source.path, copy, follow_symlinks=False)
    except OSError as error:  # such as a file that this user may not read
        raise ConfigurationError(
            f"cannot copy {sources}: {error}. Make its files readable, or give others."
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
