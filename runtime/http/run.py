"""From a configuration to a running server, and back."""

from __future__ import annotations

import errno
import os
import signal
import socket
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import uvicorn
from fastapi import FastAPI

from agentrt.errors import ConfigurationError

from .config import ListenConfig
from .connection import Connection

_BACKLOG = 2048


@contextmanager
def bind(config: ListenConfig) -> Iterator[socket.socket]:
    """Listen where ``config`` says, before a model is loaded; a Unix socket is removed at the end.

    Raises:
        ConfigurationError: something else listens there, or nothing can.
    """
    config.check()
    if config.uds is None:
        with _tcp(config) as listener:
            yield listener
        return
    _remove_stale(config.uds)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with listener:
        before = os.umask(0o177)  # only the owner may connect, from the first moment
        try:
            listener.bind(str(config.uds))
        except OSError as error:
            raise ConfigurationError(
                f"cannot listen on {config.uds} ({error.strerror or error}). Use a shorter path in a folder "
                "of your own."
            ) from error
        finally:
            os.umask(before)
        try:
            yield listener
        finally:
            config.uds.unlink(missing_ok=True)


def _tcp(config: ListenConfig) -> socket.socket:
    try:
        found = socket.getaddrinfo(
            config.host, config.port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP
        )
        family, kind, protocol, _, address = found[0]
        # With its protocol named: asyncio switches Nagle's algorithm off only where it sees that this is TCP,
        # and with it each answer would wait for the client's delayed acknowledgement.
        listener = socket.socket(family, kind, protocol)
        try:
            if os.name == "posix":
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
        except OSError:
            listener.close()
            raise
    except OSError as error:
        advice = "Stop what listens there, or choose another --port."
        if error.errno != errno.EADDRINUSE:
            advice = "Use 127.0.0.1, or an address of this machine."
        raise ConfigurationError(
            f"cannot listen on {config.host}, port {config.port} ({error.strerror or error}). {advice}"
        ) from error
    return listener


def _remove_stale(path: Path) -> None:
    """Remove the socket of a server that is gone; refuse if one answers, or if it is something else."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise ConfigurationError(f"{path} is there and is no socket. Choose another path.")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
            return
    raise ConfigurationError(f"another server listens on {path}. Stop it, or choose another path.")


def server_of(app: FastAPI, config: ListenConfig) -> uvicorn.Server:
    """A server for ``app``; its ``run`` takes the listener and ends once ``should_exit`` is set."""
    return uvicorn.Server(
        uvicorn.Config(
            app,
            http=type("BoundConnection", (Connection,), {"header_timeout_s": config.header_timeout_s}),
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            backlog=_BACKLOG,
            timeout_keep_alive=config.idle_timeout_s,
            timeout_graceful_shutdown=config.drain_s,
        )
    )


def serve(app: FastAPI, config: ListenConfig, listener: socket.socket, ready: Callable[[], None]) -> None:
    """Serve until SIGINT or SIGTERM; then let what is under way finish within ``config.drain_s``.

    Call it on the main thread. ``ready`` is called once clients may connect.
    """
    server = server_of(app, config)
    listener.listen(_BACKLOG)
    with _ending_quietly():
        ready()
        server.run(sockets=[listener])


@contextmanager
def _ending_quietly() -> Iterator[None]:
    """uvicorn raises the signal that ended it once more when it has drained; that must end nothing else."""

    def nothing(number: int, frame: FrameType | None) -> None:
        pass

    before = {number: signal.signal(number, nothing) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
