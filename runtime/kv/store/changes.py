"""The lock that every change of a store holds, and the errors of the disk as errors of the store."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agentrt.errors import AgentRTError, ContextStoreError, RuntimeClosedError

from ...files.regular_file import NotAFileError


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
            ContextStoreError: the block raised :class:`OSError`.
        """
        with self._lock:
            if self._closed:
                raise RuntimeClosedError
            with disk_errors(self._folder):
                yield

    def close(self) -> None:
        """Wait for the change under way, and refuse all later ones."""
        with self._lock:
            self._closed = True


@contextmanager
def disk_errors(folder: Path) -> Iterator[None]:
    """Raise errors of the disk in the block as :class:`ContextStoreError`."""
    try:
        yield
    except OSError as error:
        if isinstance(error, AgentRTError):
            raise
        if isinstance(error, NotAFileError):
            raise ContextStoreError(
                f"{error.strerror}, and the contexts in {folder} need one there. Move it away, or use "
                "another folder."
            ) from error
        raise ContextStoreError(
            f"the contexts in {folder} cannot be read or written ({error.strerror or error}). What was "
            "stored before is kept. Make the folder writable or free disk space, or use another folder."
        ) from error
