"""Running an application on uvicorn until a signal stops it."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import uvicorn
from fastapi import FastAPI

from .config import ListenConfig
from .connection import Connection

_BACKLOG = 2048


def make_server(app: FastAPI, config: ListenConfig) -> uvicorn.Server:
    """Return a uvicorn server for ``app``. Its ``run`` takes the listener; ``should_exit`` stops it."""
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
    """Serve until SIGINT or SIGTERM, then let requests in progress finish within ``config.drain_s``.

    Call it on the main thread. ``ready`` is called once clients can connect.
    """
    server = make_server(app, config)
    listener.listen(_BACKLOG)
    with _ignore_reraised_signals():
        ready()
        server.run(sockets=[listener])


@contextmanager
def _ignore_reraised_signals() -> Iterator[None]:
    """Ignore SIGINT and SIGTERM once uvicorn has drained: it raises the signal that stopped it again."""

    def ignore(number: int, frame: FrameType | None) -> None:
        pass

    before = {number: signal.signal(number, ignore) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
