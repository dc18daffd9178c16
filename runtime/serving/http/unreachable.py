"""Why a server cannot be reached, in plain words."""

from __future__ import annotations

import errno
import os
import socket
import ssl
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import httpx

NOTHING_LISTENS: Final = "nothing listens there"
NO_SOCKET: Final = "there is no such socket"
_BY_NUMBER: Final = {
    errno.ECONNREFUSED: NOTHING_LISTENS,
    errno.ENOENT: NO_SOCKET,
    errno.EACCES: "this user may not connect to it",
    errno.EPERM: "this user may not connect to it",
    errno.ECONNRESET: "it has broken the connection off",
}


def why_unreachable(error: httpx.HTTPError, uds: Path | None = None) -> str:
    """Return a main clause that says why a request ended with ``error``; ``uds`` is the server's Unix socket.

    What stands in the clause for the server is "it" or "there".
    """
    if uds is not None and (problem := _socket_problem(uds)) is not None:
        return problem
    if isinstance(error, httpx.ConnectTimeout):
        return "it does not accept the connection"
    if isinstance(error, httpx.TimeoutException):
        return "it sends nothing any more"
    causes = list(_causes(error))
    for cause in causes:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"its certificate is not trusted ({cause.verify_message})"
        if isinstance(cause, ssl.SSLError):
            return "it does not speak TLS, so that its address begins with http:// and not with https://"
        if isinstance(cause, socket.gaierror):
            return "there is no host of this name"
    for cause in causes:
        if isinstance(cause, OSError) and cause.errno is not None:
            return _BY_NUMBER.get(cause.errno, os.strerror(cause.errno).lower())
    if isinstance(error, httpx.RemoteProtocolError):
        return (
            "it breaks the connection off, or does not speak HTTP: an address with TLS begins with https://"
        )
    return str(error) or type(error).__name__


def _socket_problem(path: Path) -> str | None:
    """Return what is wrong with a Unix socket that can be seen without connecting to it."""
    try:
        return None if stat.S_ISSOCK(path.stat().st_mode) else "it is no socket"
    except FileNotFoundError:
        return NO_SOCKET
    except OSError:
        return None  # connecting tells more


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the causes of an error, the parts of groups included."""
    for cause in (error.__cause__, error.__context__):
        if cause is not None:
            yield cause
            yield from _causes(cause)
            break
    if isinstance(error, BaseExceptionGroup):
        for part in error.exceptions:
            yield part
            yield from _causes(part)
