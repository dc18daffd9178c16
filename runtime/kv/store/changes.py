"""The lock that every change of a store holds, and errors of files and of SQLite as errors of the store."""

from __future__ import annotations

import errno
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from agentrt.errors import AgentRTError, ContextStoreError, RuntimeClosedError
from agentrt.private_database import DatabaseProblem, NotOwnFileError, problem_of

from ...files.regular_file import NotAFileError

_NO_SPACE: Final = {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)}


class Changes:
    """One change of a store at a time; none after it was closed."""

    def __init__(self, folder: Path) -> None:
        """``folder`` is named in errors."""
        self._folder = folder
        self._lock = threading.RLock()
        self._closed = False

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold the lock; the thread that holds it may ask for it again.

        Raises:
            RuntimeClosedError: the store was closed, which its runtime does when it is.
            ContextStoreError: the block raised an error of a file or of SQLite.
        """
        with self._lock:
            if self._closed:
                raise RuntimeClosedError
            with disk_errors(self._folder):
                yield

    def close(self) -> bool:
        """Wait for the change under way, and refuse all later ones; return whether it was open."""
        with self._lock:
            was_open, self._closed = not self._closed, True
            return was_open


def is_full(error: Exception) -> bool:
    """Return whether an error is that there is no space."""
    if isinstance(error, sqlite3.Error):
        return problem_of(error) is DatabaseProblem.FULL
    return isinstance(error, OSError) and error.errno in _NO_SPACE


@contextmanager
def disk_errors(folder: Path) -> Iterator[None]:
    """Raise errors of the disk in the block, and of SQLite, as :class:`ContextStoreError`."""
    try:
        yield
    except AgentRTError:
        raise
    except (NotAFileError, NotOwnFileError) as error:
        raise ContextStoreError(
            f"{error.strerror}, and the contexts in {folder} need one there. Move it away, or use "
            "another folder."
        ) from error
    except (OSError, sqlite3.Error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise ContextStoreError(
            f"the contexts in {folder} cannot be read or written ({reason}). What was stored before is "
            "kept. Make the folder writable or free disk space, or use another folder."
        ) from error
