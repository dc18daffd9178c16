"""Sockets that a server listens on: TCP or Unix."""

from __future__ import annotations

import errno
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from agentrt.errors import ConfigurationError

from ...files.file_lock import file_lock
from .config import ListenConfig

BACKLOG: Final = 2048
"""Connections that the system accepts before the server does."""
_BUFFER_BYTES: Final = 1 << 16
"""What the system buffers in each direction of a TCP connection; by default it would be megabytes."""


@contextmanager
def bind(config: ListenConfig) -> Iterator[socket.socket]:
    """Listen on the address in ``config`` until the block ends; then close the socket, and remove a Unix one.

    A server listens before it loads its model, so that no other one can take the address meanwhile and that
    a taken one is reported at once. Connections wait until the server accepts them.

    Raises:
        ConfigurationError: the address is in use or cannot be used.
    """
    config.check()
    if config.uds is None:
        with _bind_tcp(config) as listener:
            yield listener
    else:
        with _bind_unix(config.uds) as listener:
            yield listener


def _bind_tcp(config: ListenConfig) -> socket.socket:
    try:
        found = socket.getaddrinfo(
            config.host, config.port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP
        )
        family, kind, protocol, _, address = found[0]
        # The protocol must be given: asyncio disables Nagle's algorithm only on sockets whose protocol is
        # TCP, and with it each answer would be delayed until the client's acknowledgement.
        listener = socket.socket(family, kind, protocol)
        try:
            if os.name == "posix":
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            for buffer in (socket.SO_SNDBUF, socket.SO_RCVBUF):  # its connections inherit them
                listener.setsockopt(socket.SOL_SOCKET, buffer, _BUFFER_BYTES)
            listener.bind(address)
            # With SO_REUSEADDR, Linux lets two sockets bind one port until one of them listens.
            listener.listen(BACKLOG)
        except OSError:
            listener.close()
            raise
    except (OSError, UnicodeError) as error:
        advice = "Use 127.0.0.1, or an address of this machine."
        if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
            advice = "Stop the program that listens there, or choose another --port."
        raise ConfigurationError(
            f"cannot listen on {config.host}, port {config.port} ({_reason(error)}). {advice}"
        ) from error
    return listener


@contextmanager
def _bind_unix(path: Path) -> Iterator[socket.socket]:
    if not hasattr(socket, "AF_UNIX"):
        raise ConfigurationError("this system has no Unix sockets. Leave --uds out.")
    with ExitStack() as held:
        try:
            # Else a second server could take the first one's socket for a stale one, and replace it.
            held.enter_context(file_lock(path.with_name(f".lock-{path.name}"), wait=False))
            listener = held.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            _remove_stale_socket(path)
            listener.bind(str(path))
            path.chmod(0o600)  # nobody can connect before it listens
            own = _identity(path)
            listener.listen(BACKLOG)
        except BlockingIOError:
            raise _in_use(path) from None
        except ConfigurationError:
            raise
        except (OSError, ValueError) as error:
            raise ConfigurationError(
                f"cannot listen on {path} ({_reason(error)}). Use a shorter path in a folder of your own."
            ) from error
        try:
            yield listener
        finally:
            if _identity(path) == own:
                path.unlink()


def _remove_stale_socket(path: Path) -> None:
    """Remove the Unix socket of a server that has ended; raise a :class:`ConfigurationError` otherwise."""
    if not os.path.lexists(path):
        return
    if not stat.S_ISSOCK(path.lstat().st_mode):
        raise ConfigurationError(f"{path} exists and is not a socket. Choose another path.")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
            return
        except BlockingIOError:
            pass  # a program listens there, and has as many connections waiting as it allows
    raise _in_use(path)


def _identity(path: Path) -> tuple[int, int] | None:
    """Return what tells the file at ``path`` from any that replaces it; None if there is none."""
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _in_use(path: Path) -> ConfigurationError:
    return ConfigurationError(f"another server listens on {path}. Stop it, or choose another path.")


def _reason(error: Exception) -> str:
    return (isinstance(error, OSError) and error.strerror) or str(error)
