"""A lock between processes, on a file."""

from __future__ import annotations

import errno
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from agentrt.own_files import open_regular

_RETRY_S: Final = 0.2


@contextmanager
def file_lock(file: Path, *, wait: bool = True) -> Iterator[None]:
    """Hold the lock ``file``; wait while another thread or process holds it, or do not ``wait`` for it.

    The system releases it when a process ends, however it ends. The file stays. A forked child neither holds
    the lock nor releases it.

    Raises:
        BlockingIOError: another thread or process holds it, and this one is not to wait.
        OSError: the file cannot be created, or something else than a file lies there.
    """
    with open(file, "ab", opener=open_regular) as stream:
        while not _acquired(stream.fileno()):
            if not wait:
                raise BlockingIOError(errno.EWOULDBLOCK, f"{file} is locked")
            _wait()
        process = os.getpid()
        try:
            yield
        finally:
            # Closing the file would not release it while a forked child has it open, too.
            if os.getpid() == process:
                _release(stream.fileno())


def _wait() -> None:
    time.sleep(_RETRY_S)  # not a blocking lock, so that Ctrl-C reaches Python on every system


if sys.platform == "win32":
    import msvcrt

    def _acquired(handle: int) -> bool:
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def _release(handle: int) -> None:
        """Do nothing: there are no forks, and closing the file releases the lock."""

else:
    import fcntl

    def _acquired(handle: int) -> bool:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _release(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_UN)
