"""Running an application on uvicorn until a signal stops it."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import logging
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from email.utils import formatdate
from functools import partial
from types import FrameType
from typing import Final, cast

import uvicorn
from fastapi import FastAPI
from uvicorn.server import ServerState

from .application import AnswerInterrupted
from .config import ListenConfig
from .connection import Connection
from .connection_table import ConnectionTable, connection_limit

_M_ARENA_MAX: Final = -8
_ARENAS: Final = 2
TRIM_S: Final = 30
"""Seconds between two times that freed memory is given back."""
_ENDING_S: Final = 5
"""Seconds in which cancelled requests must have sent their errors; then their connections are closed."""
_ENDED_S: Final = 1
"""Seconds in which requests without a connection must have ended."""
_RETRY_S: Final = 1.0
"""Seconds between two tries to accept, where no connection can be closed for a new one."""
_WARNING_S: Final = 60.0

_log: Final = logging.getLogger(__name__)


def share_arenas() -> None:
    """Let all threads of this process allocate from two arenas. Does nothing without glibc.

    glibc gives each thread an arena of its own. What one thread frees others cannot use, so a server with
    many threads grows for hours. To be called before there are threads.
    """
    _in_glibc("mallopt", _M_ARENA_MAX, _ARENAS)


async def give_back_freed() -> None:
    """Give the pages that nothing is in any more back to the system. Does nothing without glibc.

    glibc gives back the end of an arena only. Between what lives long, pages that requests have freed stay
    with the process, and more of them the longer it serves.
    """
    await asyncio.to_thread(_in_glibc, "malloc_trim", 0)


def _in_glibc(name: str, *arguments: int) -> None:
    """Call a function of the C library, unless it is another one than glibc."""
    with suppress(OSError, TypeError, AttributeError):
        getattr(ctypes.CDLL(None), name)(*arguments)


class _DatedState(ServerState):
    """What uvicorn's connections share. The date of an answer is that of its beginning, without a tick."""

    @property
    def default_headers(self) -> list[tuple[bytes, bytes]]:
        return [(b"date", formatdate(usegmt=True).encode())]

    @default_headers.setter
    def default_headers(self, headers: list[tuple[bytes, bytes]]) -> None:
        """Called by uvicorn with the headers of its configuration, of which there are none."""


class DrainingServer(uvicorn.Server):
    """Stops at the first signal, once its requests have ended or ``drain_s`` is over, or at a second SIGINT.

    Requests that are in progress then are cancelled; :class:`AnswerInterrupted` answers them. Its ``run``
    takes the listeners; ``should_exit``, which any thread may set, stops it, too. While nothing happens it
    does not wake up, where uvicorn looks ten times a second whether it is to stop.
    """

    def __init__(
        self,
        app: FastAPI,
        config: ListenConfig,
        ready: Callable[[], None] = lambda: None,
        waiting: Callable[[int], None] = lambda requests: None,
    ) -> None:
        """``ready`` is called once clients can connect and signals stop the server.

        ``waiting`` is called with the number of requests in progress when the server begins to wait for them.
        Before, ``end_streams`` of the state of ``app`` is called if there is one: it ends the answers that
        have no end of their own, and returns how many there are.
        """
        self._table = ConnectionTable(connection_limit(config.max_connections), config.apps)
        of_server = {"config_of_server": config, "table": self._table}
        self._connections: type[Connection] = type("BoundConnection", (Connection,), of_server)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._exiting = asyncio.Event()
        super().__init__(
            uvicorn.Config(
                AnswerInterrupted(app),
                http=self._connections,
                ws="none",
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_keep_alive=config.idle_timeout_s,
            )
        )
        self.server_state = _DatedState()
        self._drain_s = config.drain_s
        self._ready = ready
        self._waiting = waiting
        self._end_streams: Callable[[], int] = getattr(app.state, "end_streams", lambda: 0)
        self._stop_now = asyncio.Event()

    @property
    def should_exit(self) -> bool:
        """Whether the server is to stop."""
        return self._should_exit

    @should_exit.setter
    def should_exit(self, value: bool) -> None:
        self._should_exit = value
        if value:
            self._set(self._exiting)

    def _set(self, event: asyncio.Event) -> None:
        """Set an event of the loop, from any thread and from signal handlers, which do not wake the loop."""
        if self._loop is not None:
            with suppress(RuntimeError):  # it is closed
                self._loop.call_soon_threadsafe(event.set)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to stop at the first signal, and end the requests in progress at a second SIGINT."""
        if self.should_exit and sig == signal.SIGINT and not self._stop_now.is_set():
            self._set(self._stop_now)
        else:
            super().handle_exit(sig, frame)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to accept connections, and say so."""
        self._loop = asyncio.get_running_loop()
        await super().startup([])
        self._accepting = [asyncio.create_task(self._accept_all(listener)) for listener in sockets or ()]
        self._ready()

    async def _accept_all(self, listener: socket.socket) -> None:
        """Accept connections, one in each turn of the event loop, so that those before it are read meanwhile.

        asyncio's servers accept as many in a turn as the system has queued. In Python 3.11 they try and log
        as often when no descriptor is left.
        """
        listener.setblocking(False)
        loop, warned = asyncio.get_running_loop(), float("-inf")
        protocol = partial(self._connections, self.config, self.server_state, self.lifespan.state)
        while True:
            try:
                connection = await _accept(listener)
            except ConnectionAbortedError:
                continue
            except OSError as error:  # also network errors, which belong to one connection (accept(2))
                if loop.time() - warned >= _WARNING_S:  # clients could fill the disk with more
                    warned = loop.time()
                    _log.warning(
                        "cannot accept a connection (%s). If too many files are open, raise the limit "
                        "(ulimit -n).",
                        error.strerror,
                    )
                await asyncio.sleep(0 if self._table.free_one() else _RETRY_S)
                continue
            with suppress(OSError):
                await loop.connect_accepted_socket(protocol, connection)

    async def main_loop(self) -> None:
        """Wait for the end. Memory that requests have freed is given back meanwhile."""
        giving_back = asyncio.create_task(self._give_back_freed())
        if not self.should_exit:  # set before there was a loop
            await self._exiting.wait()
        giving_back.cancel()

    async def _give_back_freed(self) -> None:
        requests = 0
        while True:
            await asyncio.sleep(TRIM_S)
            if requests != self.server_state.total_requests:
                requests = self.server_state.total_requests
                await give_back_freed()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept no more connections, and wait until the requests in progress have ended or were ended."""
        for accepting in self._accepting:
            accepting.cancel()
        requests = len(self.server_state.tasks) - self._end_streams()
        if requests and self._drain_s and not self._stop_now.is_set():
            self._waiting(requests)
        ending = asyncio.create_task(self._end_requests())
        try:
            await super().shutdown(sockets)
        finally:
            ending.cancel()

    async def _end_requests(self) -> None:
        """Cancel the requests in progress when the time is over or a second SIGINT has come."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._drain_s):
                await self._stop_now.wait()
        for task in self.server_state.tasks:
            task.cancel()
        await asyncio.sleep(_ENDING_S)
        for connection in list(self.server_state.connections):
            cast(Connection, connection).abort()
        await asyncio.sleep(_ENDED_S)
        self.force_exit = True


async def _accept(listener: socket.socket) -> socket.socket:
    """Accept a connection. If the task is cancelled, one that has just come stays in the system's queue.

    asyncio's ``sock_accept`` would have accepted it, and lose it.
    """
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    while True:
        try:
            connection, _ = listener.accept()
        except BlockingIOError:
            readable.clear()
            loop.add_reader(listener, readable.set)
            try:
                await readable.wait()
            finally:
                loop.remove_reader(listener)
        else:
            connection.setblocking(False)
            return connection


def serve(
    app: FastAPI,
    config: ListenConfig,
    listeners: Sequence[socket.socket],
    ready: Callable[[], None],
    waiting: Callable[[int], None],
) -> None:
    """Serve until SIGINT or SIGTERM, then let requests in progress finish within ``config.drain_s``.

    All ``listeners`` drain together. Call it on the main thread. ``ready`` is called once clients can connect
    and signals stop the server; ``waiting`` with the number of requests in progress when the server begins to
    wait for them.
    """

    def started() -> None:
        # A full collection would hold all threads up for some 70 ms, most of it for what was imported.
        gc.collect()
        gc.freeze()
        ready()

    server = DrainingServer(app, config, started, waiting)
    with _signals_stop(server):
        server.run(sockets=list(listeners))


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
