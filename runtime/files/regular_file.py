"""Opens files where something else may lie, such as a FIFO, whose opening would wait for a writer."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Final

_FLAGS: Final = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)


class NotAFileError(OSError):
    """Something else than a regular file lies at a path, which the message names."""

    def __init__(self, path: str | Path) -> None:
        """``path`` is a FIFO, a socket, a device, a folder, or a link that is not to be followed."""
        super().__init__(errno.EINVAL, f"{path} is no regular file")


def open_regular(path: str | Path, flags: int, mode: int = 0o600) -> int:
    """Return the descriptor of a regular file, as :func:`os.open` does, without waiting for anything.

    Raises:
        NotAFileError: something else lies there.
        OSError: it cannot be opened.
    """
    try:
        descriptor = os.open(path, flags | _FLAGS, mode)
    except OSError as error:
        if _is_other(path, follow=not flags & getattr(os, "O_NOFOLLOW", 0)):
            raise NotAFileError(path) from error
        raise
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise NotAFileError(path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _is_other(path: str | Path, *, follow: bool) -> bool:
    try:
        return not stat.S_ISREG(os.stat(path, follow_symlinks=follow).st_mode)
    except (OSError, ValueError):
        return False
