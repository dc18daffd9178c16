"""Files of the user: opened safely where there may be a FIFO; read if no one else may use them."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

NO_LINKS: Final = getattr(os, "O_NOFOLLOW", 0)
"""For :func:`open_regular`: a link is no regular file."""
_FLAGS: Final = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)
_MAX_BYTES: Final = 2**20


class NotAFileError(OSError):
    """Something else than a regular file lies at a path, or one of another user; the message names it."""

    def __init__(self, path: str | Path, of_whom: str = "") -> None:
        """``path`` is a FIFO, a socket, a device, a folder, or a link that is not to be followed."""
        super().__init__(errno.EINVAL, f"{path} is no regular file{of_whom}")


class OwnFileError(Exception):
    """Why a file cannot be used, and what to do: two sentences without the path and the last full stop."""


def open_regular(path: str | Path, flags: int, mode: int = 0o600) -> int:
    """Return the descriptor of a regular file, as :func:`os.open` does, without waiting for anything.

    Raises:
        NotAFileError: something else lies there.
        OSError: it cannot be opened.
    """
    try:
        descriptor = os.open(path, flags | _FLAGS, mode)
    except OSError as error:
        if _is_other(path, follow=not flags & NO_LINKS):
            raise NotAFileError(path) from error
        raise
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise NotAFileError(path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def make_private_file(path: Path) -> None:
    """Create a file if it is missing; make sure that it is the user's own and readable by no one else.

    Raises:
        NotAFileError: something else lies there, or a file of another user.
        OSError: it cannot be created.
    """
    descriptor = open_regular(path, os.O_RDWR | os.O_CREAT | NO_LINKS)
    try:
        found = os.fstat(descriptor)
        if hasattr(os, "getuid") and found.st_uid != os.getuid():
            raise NotAFileError(path, " that you own")
        if hasattr(os, "fchmod") and stat.S_IMODE(found.st_mode) != 0o600:
            os.fchmod(descriptor, 0o600)
    finally:
        os.close(descriptor)


def replace_own_file(path: Path, text: str) -> None:
    """Replace a file, or create it with its folder: at once or not at all, and readable by no one else.

    Raises:
        NotAFileError: something else lies beside it under the name of the new one, or a file of another user.
        OSError: it cannot be written.
    """
    new = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        make_private_file(new)
        new.write_text(text, encoding="utf-8")
        new.replace(path)
    finally:
        with suppress(OSError):
            new.unlink(missing_ok=True)


def read_own_file(path: Path, *, secret: bool = True) -> str:
    """Return the text of a file of this user or of root that no other one can change, nor read if ``secret``.

    A group may read a secret that is root's. Permissions are those of POSIX; other systems have none that are
    checked.

    Raises:
        OwnFileError: it cannot be read, is no text in UTF-8, is larger than 1 MiB, or others can use it.
    """
    try:
        descriptor = open_regular(path, os.O_RDONLY)
    except NotAFileError as error:
        raise OwnFileError("it is no regular file. Name a text file") from error
    except (OSError, ValueError) as error:
        raise OwnFileError(f"{_reason(path, error)}. Create it, or name another one") from error
    try:
        if os.name == "posix":
            _check_permissions(path, os.fstat(descriptor), secret=secret)
        data = os.read(descriptor, _MAX_BYTES + 1)
    except OSError as error:
        raise OwnFileError(f"{error.strerror}. Name another one") from error
    finally:
        os.close(descriptor)
    if len(data) > _MAX_BYTES:
        raise OwnFileError(f"it has more than {_MAX_BYTES} bytes. Shorten it")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise OwnFileError(f"it is not UTF-8 at byte {error.start}. Name a text file") from None


def _check_permissions(path: Path, status: os.stat_result, *, secret: bool) -> None:
    """Raise :class:`OwnFileError` unless the file is this user's or root's, and safe from all others.

    The rule for secrets is PostgreSQL's for its private key: a file of root may have a group of readers,
    since root alone has chosen it. So containers mount secrets.
    """
    if status.st_uid not in (os.geteuid(), 0):
        raise OwnFileError("it belongs to another user, who may change it. Use a file of your own")
    readers = stat.S_IRGRP if status.st_uid == 0 else 0
    others = stat.S_IMODE(status.st_mode) & (stat.S_IRWXG | stat.S_IRWXO)
    if secret and others & ~readers:
        if status.st_uid == os.geteuid():
            raise OwnFileError(f"other users may read it. Run: chmod 600 {path}")
        raise OwnFileError(
            "it is root's, and more users than its group may read it, or some may change it. Mount it with "
            "mode 0440 and a group of the server"
        )
    if others & (stat.S_IWGRP | stat.S_IWOTH):
        raise OwnFileError(f"other users may change it. Run: chmod go-w {path}")


def _reason(path: Path, error: OSError | ValueError) -> str:
    if isinstance(error, FileNotFoundError):
        return "it is a link to a file that is not there" if path.is_symlink() else "there is no such file"
    return (isinstance(error, OSError) and error.strerror) or str(error)


def _is_other(path: str | Path, *, follow: bool) -> bool:
    try:
        return not stat.S_ISREG(os.stat(path, follow_symlinks=follow).st_mode)
    except (OSError, ValueError):
        return False
