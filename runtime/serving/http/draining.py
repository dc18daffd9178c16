"""A uvicorn server that lets requests in progress finish for a while when it stops."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import cast

import uvicorn

from .acceptor import Acceptor
from .connection import Connection
from .connection_table import ConnectionTable

_ENDING_S = 5
"""Seconds in which cancelled requests must have sent their errors; then their connections are closed."""
_ENDED_S = 1
"""Seconds in which requests without a connection must have ended."""


class DrainingServer(uvicorn.Server):
    """Stops at the first signal, once its requests have ended or ``drain_s`` is over, or at a second SIGINT.

    Requests that are in progress then are cancelled; :class:`AnswerInterrupted` answers them.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        table: ConnectionTable,
        drain_s: float,
        ready: Callable[[], None],
        waiting: Callable[[int], None],
        end_streams: Callable[[], int],
    ) -> None:
        """``table`` has the connections of ``config``'s protocol.

        ``ready`` is called once clients can connect and signals stop the server.
        ``waiting`` is called with the number of requests in progress when the server begins to wait for them.
        ``end_streams`` is called before: it ends the answers that have no end of their own, and returns how
        many there are.
        """
        super().__init__(config)
        self._table = table
        self._drain_s = drain_s
        self._ready = ready
        self._waiting = waiting
        self._end_streams = end_streams
        self._stop_now = asyncio.Event()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to stop at the first signal, and end the requests in progress at a second SIGINT."""
        if self.should_exit and sig == signal.SIGINT and not self._stop_now.is_set():
            self._stop_now.set()  # in the loop's thread, which uvicorn wakes ten times a second to look
        else:
            super().handle_exit(sig, frame)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to accept connections, and say so."""
        await super().startup([])
        for listener in sockets or ():
            acceptor = Acceptor(listener, self._new_connection, self._table.free_one)
            self.servers.append(acceptor)  # type: ignore[arg-type]  # uvicorn closes it and waits for that
        self._ready()

    def _new_connection(self) -> asyncio.Protocol:
        protocol = cast(type[Connection], self.config.http_protocol_class)
        return protocol(self.config, self.server_state, self.lifespan.state)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept no more connections, and wait until the requests in progress have ended or were ended."""
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
