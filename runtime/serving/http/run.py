"""Running an application on uvicorn until a signal stops it."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn
from fastapi import FastAPI

from .allocator import TRIM_S, give_back_freed
from .config import ListenConfig
from .connection import Connection
from .connection_table import ConnectionTable, connection_limit
from .draining import DrainingServer
from .interrupted import AnswerInterrupted


def make_server(
    app: FastAPI,
    config: ListenConfig,
    ready: Callable[[], None] = lambda: None,
    waiting: Callable[[int], None] = lambda requests: None,
) -> DrainingServer:
    """Return a server for ``app``. Its ``run`` takes the listener; ``should_exit`` stops it.

    ``ready`` and ``waiting`` are those of :func:`serve`. If the state of ``app`` has a function
    ``end_streams``, it is called when the server stops; see :class:`DrainingServer`.
    """
    table = ConnectionTable(connection_limit(config.max_connections), config.apps)
    settings = uvicorn.Config(
        AnswerInterrupted(app),
        http=Connection.bound_to(config, table),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=config.idle_timeout_s,
        callback_notify=give_back_freed,
        timeout_notify=TRIM_S,
    )
    end_streams = getattr(app.state, "end_streams", _no_streams)
    return DrainingServer(settings, table, config.drain_s, ready, waiting, end_streams)


def serve(
    app: FastAPI,
    config: ListenConfig,
    listener: socket.socket,
    ready: Callable[[], None],
    waiting: Callable[[int], None],
) -> None:
    """Serve until SIGINT or SIGTERM, then let requests in progress finish within ``config.drain_s``.

    Call it on the main thread. ``ready`` is called once clients can connect and signals stop the server;
    ``waiting`` with the number of requests in progress when the server begins to wait for them.
    """
    server = make_server(app, config, ready, waiting)
    with _signals_stop(server):
        server.run(sockets=[listener])


def _no_streams() -> int:
    return 0


@contextmanager
def _signals_stop(server: DrainingServer) -> Iterator[None]:
    """Let SIGINT and SIGTERM stop ``server`` before its own handlers are there, and do nothing after that.

    uvicorn raises the signal that stopped it again once it has drained.
    """
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, server.handle_exit) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
