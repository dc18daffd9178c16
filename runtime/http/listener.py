"""Sockets that a server listens on: TCP or Unix."""

from __future__ import annotations

import errno
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agentrt.errors import ConfigurationError

from .config import ListenConfig


@contextmanager
def bind(config: ListenConfig) -> Iterator[socket.socket]:
    """Bind a socket to the address in ``config``, and close it when the block ends; remove a Unix socket.

    A server binds before it loads its model, so that a taken address is reported at once.

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
            listener.bind(address)
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
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        before = os.umask(0o177)  # only the owner may connect, from the first moment
        try:
            _remove_stale_socket(path)
            listener.bind(str(path))
        except ConfigurationError:
            raise
        except (OSError, ValueError) as error:
            raise ConfigurationError(
                f"cannot listen on {path} ({_reason(error)}). Use a shorter path in a folder of your own."
            ) from error
        finally:
            os.umask(before)
        try:
            yield listener
        finally:
            path.unlink(missing_ok=True)


def _remove_stale_socket(path: Path) -> None:
    """Remove the Unix socket of a server that has ended.

    Raises:
        ConfigurationError: a server answers on it, or the file is not a socket.
        OSError: the path cannot be looked at.
    """
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise ConfigurationError(f"{path} exists and is not a socket. Choose another path.")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
            return
    raise ConfigurationError(f"another server listens on {path}. Stop it, or choose another path.")


def _reason(error: Exception) -> str:
    return (isinstance(error, OSError) and error.strerror) or str(error)
