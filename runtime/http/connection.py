"""One HTTP/1.1 connection: uvicorn's, with time limits, bounded buffers and the peer's identity."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import struct
from contextlib import suppress
from typing import Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from .config import ListenConfig
from .connection_table import ConnectionTable
from .errors import ApiError
from .identity import peer_app

STOPPING_WRITE_S: Final = 3.0
"""Seconds in which a client must have read what it was sent, once the server stops."""

_NO_LINGER: Final = struct.pack("ii", 1, 0)

_log = logging.getLogger("uvicorn.error.connection")
_log.setLevel(logging.ERROR)  # uvicorn warns of each request that is not HTTP: clients could fill the disk


class Connection(H11Protocol):
    """uvicorn's HTTP/1.1 protocol with limits on the time of heads and of what the client has yet to read.

    uvicorn limits only the time between requests: a client that sends its first line byte by byte (slow
    loris), or does not read its answer, would hold a connection without end, and the server's stop with it.
    """

    config_of_server: ListenConfig
    """Set on the subclass that a server uses, as is the table."""
    table: ConnectionTable

    _head_timer: asyncio.TimerHandle | None = None
    _write_timer: asyncio.TimerHandle | None = None

    @classmethod
    def bound_to(cls, config: ListenConfig, table: ConnectionTable) -> type[Connection]:
        """Return the class of the connections of one server."""
        return type("BoundConnection", (cls,), {"config_of_server": config, "table": table})

    @property
    def idle(self) -> bool:
        """Whether no request is in progress."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Store the peer's app in the state of each request, and start the timer of the first head."""
        super().connection_made(transport)
        self.logger = _log
        self._write_timeout_s = self.config_of_server.write_timeout_s
        transport.set_write_buffer_limits(high=0)  # writing is paused while anything is unsent
        self.app_state = {**self.app_state, "peer": peer_app(_socket_of(transport)), "connection": self}
        self._start_timer()
        self.table.add(self)

    def prove(self, app: str) -> bool:
        """Make this a connection of ``app``: a request of it was accepted. False if the app has too many."""
        return self.table.prove(self, app)

    def abort(self) -> None:
        """Close the connection at once, without what is still to be sent, here or by the system."""
        with suppress(OSError):  # the client may have reset it
            _socket_of(self.transport).setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        self.transport.abort()

    def break_off(self) -> None:
        """Close the connection once the client has what was sent, and leave the answer incomplete.

        uvicorn would close it, too, and log that the application is at fault.
        """
        self.cycle.disconnected = True
        self.transport.close()

    def data_received(self, data: bytes) -> None:
        """Parse ``data``; the timer runs until a request's head is complete."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_timer()
        elif self._head_timer is None:
            self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timers."""
        self.table.remove(self)
        self._stop_timer()
        super().connection_lost(exc)
        self._stop_write_timer()

    def pause_writing(self) -> None:
        """Start the timer of what is unsent. It also runs while the connection closes."""
        super().pause_writing()
        self._write_timer = self.loop.call_later(self._write_timeout_s, self.abort)

    def resume_writing(self) -> None:
        """Stop the timer: everything is sent."""
        self._stop_write_timer()
        super().resume_writing()

    def shutdown(self) -> None:
        """End the connection after the request in progress, and sooner if its client does not read."""
        self._write_timeout_s = min(self._write_timeout_s, STOPPING_WRITE_S)
        if self._write_timer is not None:
            self._stop_write_timer()
            self._write_timer = self.loop.call_later(self._write_timeout_s, self.abort)
        super().shutdown()

    def send_400_response(self, msg: str) -> None:
        """Answer bytes that are not HTTP, in OpenAI's error format."""
        self._refuse(ApiError(400, f"{msg} Send HTTP/1.1."))

    def _start_timer(self) -> None:
        self._head_timer = self.loop.call_later(self.config_of_server.header_timeout_s, self._head_timed_out)

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _stop_write_timer(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def _head_timed_out(self) -> None:
        self._head_timer = None
        self._refuse(ApiError(408, "the request's head took too long. Send it at once."))

    def _refuse(self, error: ApiError) -> None:
        """Answer with ``error`` if no response has begun, and close the connection."""
        if self.transport.is_closing():
            return
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            if self.cycle is not None:
                self.cycle.disconnected = True  # what the application still sends is dropped
            body = json.dumps(error.body()).encode()
            headers = [
                (b"content-type", b"application/json"),
                (b"content-length", str(len(body)).encode()),
                (b"connection", b"close"),
            ]
            events: list[Any] = [
                h11.Response(status_code=error.status_code, headers=headers),
                h11.Data(data=body),
                h11.EndOfMessage(),
            ]
            for event in events:
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()


def _socket_of(transport: asyncio.Transport) -> Any:
    return transport.get_extra_info("socket")
