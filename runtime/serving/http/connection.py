"""One HTTP/1.1 connection: uvicorn's, with limits, an answer to every client, and the peer's identity."""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from .config import ListenConfig
from .connection_table import ConnectionTable
from .errors import ApiError
from .http11 import Http11
from .identity import peer_app

STOPPING_WRITE_S: Final = 3.0
"""Seconds in which a client must have read what it was sent, once the server stops."""

_FIRST_PROBE_S: Final = 0.1
_PROBE_FACTOR: Final = 3
"""Seconds between the first two bytes that are sent early, and by what each later interval is longer."""
_LEAST_READ: Final = 1 << 10
_MOST_READ: Final = 1 << 14
"""Bytes that are read and parsed in one turn of the event loop."""
_MANY_EVENTS: Final = 64
"""Of HTTP in what was read at once: a body in chunks of one byte has thousands, and each takes some µs."""
LINGER_S: Final = 10.0
"""Seconds for which a closing connection waits for its client to close, too."""
_LINGER_BODIES: Final = 4
"""What a closing connection discards at most, in bodies of the greatest size."""
_NO_LINGER: Final = struct.pack("ii", 1, 0)

_log = logging.getLogger("uvicorn.error.connection")
_log.setLevel(logging.ERROR)  # uvicorn warns of each request that is not HTTP: clients could fill the disk


class _LingeringTransport:
    """A transport that reads on while it closes, if its client may still be sending.

    The system resets a connection that is closed with bytes that were not read: the client, which may still
    be sending its body, then finds an error in place of the answer. So sending is ended first (half-close),
    and what arrives is discarded until the client closes, too, or has sent too much or for too long.
    """

    def __init__(
        self, transport: asyncio.Transport, client_may_send: Callable[[], bool], max_bytes: int
    ) -> None:
        """``client_may_send`` says whether bytes may arrive that nobody waits for: at most ``max_bytes``."""
        self._transport = transport
        self._client_may_send = client_may_send
        self._bytes_left = max_bytes
        self._seconds = LINGER_S
        self._closing = False
        self._timer: asyncio.TimerHandle | None = None
        """It runs while the connection lingers."""
        self.received_eof = False
        """Whether the client has ended its sending. Set by the protocol."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def is_closing(self) -> bool:
        return self._closing or self._transport.is_closing()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._closing:
            self._transport.write(data)

    def pause_reading(self) -> None:
        if not self._closing:
            self._transport.pause_reading()

    def close(self) -> None:
        """Close the connection when everything is sent. It lingers if the client may still be sending."""
        if self._client_may_send():
            self.linger()
        elif not self._closing:
            self._closing = True
            self._transport.close()

    def linger(self) -> None:
        """End sending, and discard what arrives before the client closes, too."""
        if self.is_closing():
            return
        self._closing = True
        if self.received_eof:
            self._transport.close()
            return
        self._transport.resume_reading()
        self._start_timer()
        if self._transport.get_write_buffer_size() == 0:
            self.end_sending()

    def end_sending(self) -> None:
        """Tell a client whose connection lingers that everything was sent. To be called when it was."""
        if self._timer is not None:
            with suppress(OSError):  # the client may have reset it
                self._transport.get_extra_info("socket").shutdown(socket.SHUT_WR)

    def discard(self, data: bytes) -> None:
        self._bytes_left -= len(data)
        if self._bytes_left < 0:
            self._transport.close()

    def hurry(self, seconds: float) -> None:
        self._seconds = min(self._seconds, seconds)
        if self._timer is not None:
            self._start_timer()

    def lost(self) -> None:
        self._closing = True
        if self._timer is not None:
            self._timer.cancel()

    def _start_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(self._seconds, self._transport.close)


class Connection(H11Protocol, asyncio.BufferedProtocol):
    """uvicorn's HTTP/1.1 protocol with limits on the time of heads and of what the client has yet to read.

    uvicorn limits only the time between requests: a client that sends its first line byte by byte (slow
    loris), or does not read its answer, would hold a connection without end, and the server's stop with it.

    uvicorn also takes a client that ends its sending (half-close) for one that is gone. Both look the same
    until bytes are sent to them: the system of a client that is gone resets the connection. So the server
    sends the beginning of the answer early, byte by byte at growing intervals, until it sends the rest.

    asyncio would read 256 KiB at a time, and uvicorn parse them in one turn of the loop. As a buffered
    protocol, a connection reads less, and least where much is to be parsed.
    """

    config_of_server: ListenConfig
    """Set on the subclass that a server uses, as is the table."""
    table: ConnectionTable

    conn: Http11
    transport: _LingeringTransport  # type: ignore[assignment]  # uvicorn needs no more of it

    _head_timer: asyncio.TimerHandle | None = None
    _write_timer: asyncio.TimerHandle | None = None
    """It runs while anything is unsent."""
    _probe_timer: asyncio.TimerHandle | None = None
    _probe_s = _FIRST_PROBE_S
    _read_bytes = _LEAST_READ

    def __init__(self, *arguments: Any) -> None:
        """``arguments`` are those of uvicorn's protocols."""
        super().__init__(*arguments)
        self.conn = Http11()

    @property
    def idle(self) -> bool:
        """Whether no request is in progress."""
        return self.cycle is None or self.cycle.response_complete or self.transport.is_closing()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Store the peer's app in the state of each request, and start the timer of the first head."""
        config = self.config_of_server
        discarded = _LINGER_BODIES * config.max_body_bytes
        lingering: Any = _LingeringTransport(transport, self._client_may_send, discarded)
        super().connection_made(lingering)
        self.logger = _log
        self._write_timeout_s = config.write_timeout_s
        transport.set_write_buffer_limits(high=0)  # writing is paused while anything is unsent
        self.app_state = {**self.app_state, "peer": peer_app(_socket_of(transport)), "connection": self}
        self._start_timer()
        self.table.add(self)

    def abort(self) -> None:
        """Close the connection at once, without what is still to be sent, here or by the system."""
        with suppress(OSError):  # the client may have reset it
            _socket_of(self.transport).setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        self.transport.abort()

    def break_off(self) -> None:
        """Close the connection once the client has what was sent, and leave the answer incomplete.

        uvicorn would close it, too, and log that the application is at fault.
        """
        self._end_request()
        self.transport.close()

    def get_buffer(self, sizehint: int) -> bytearray:
        """Return where the next bytes are to be stored."""
        self._buffer = bytearray(self._read_bytes)
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Parse what was stored in the buffer; read less or more from now on."""
        before = self.conn.events
        self.data_received(bytes(memoryview(self._buffer)[:nbytes]))
        many = self.conn.events - before > _MANY_EVENTS
        self._read_bytes = _LEAST_READ if many else min(2 * self._read_bytes, _MOST_READ)

    def data_received(self, data: bytes) -> None:
        """Parse ``data``; the timer runs until a request's head is complete."""
        if self.transport.is_closing():
            self.transport.discard(data)
            return
        if self.conn.their_state in (h11.MUST_CLOSE, h11.CLOSED):
            return  # behind the last request, such as the line feed at the end of a file
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            if self._head_timer is not None:
                self._head_timer.cancel()
                self._head_timer = None
        elif self._head_timer is None:
            self._start_timer()

    def eof_received(self) -> bool:  # type: ignore[override]  # asyncio's protocols may return it
        """Answer a request that is complete, refuse one that is not; return whether to stay open."""
        self.transport.received_eof = True
        if not self.idle and not self.cycle.more_body:
            if self._probe_timer is None:
                self._probe()
            return True
        if self.conn.unparsed or not self.idle:
            self._refuse(ApiError(400, "the connection ended within the request. Send all of it."))
        return False

    def on_response_complete(self) -> None:
        """Begin the next request, or wait for the rest of its head."""
        super().on_response_complete()
        if not self.idle or self.transport.is_closing():
            return
        if self.transport.received_eof:  # in it all of the requests have come
            self.eof_received()
            self.transport.close()
        elif self.conn.unparsed:
            self._unset_keepalive_if_required()
            self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timers."""
        self.table.remove(self)
        self.transport.lost()
        super().connection_lost(exc)
        for timer in (self._head_timer, self._probe_timer, self._write_timer):
            if timer is not None:
                timer.cancel()

    def pause_writing(self) -> None:
        """Start the timer of what is unsent. It also runs while the connection closes."""
        super().pause_writing()
        self._write_timer = self.loop.call_later(self._write_timeout_s, self.abort)

    def resume_writing(self) -> None:
        """Stop the timer: everything is sent."""
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None
        self.transport.end_sending()
        super().resume_writing()

    def shutdown(self) -> None:
        """End the connection after the request in progress, and sooner if its client does not read."""
        self._write_timeout_s = min(self._write_timeout_s, STOPPING_WRITE_S)
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = self.loop.call_later(self._write_timeout_s, self.abort)
        self.transport.hurry(STOPPING_WRITE_S)
        super().shutdown()

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP, too large or ambiguous."""
        assert self.conn.refusal is not None
        self._refuse(self.conn.refusal)

    def _start_timer(self) -> None:
        self._head_timer = self.loop.call_later(self.config_of_server.header_timeout_s, self._head_timed_out)

    def _probe(self) -> None:
        """Find out whether a client that has ended its sending is gone, now and at growing intervals."""
        if not self.flow.write_paused:
            self.transport.write(self.conn.early_byte())
        self._probe_timer = self.loop.call_later(self._probe_s, self._probe)
        self._probe_s *= _PROBE_FACTOR

    def _head_timed_out(self) -> None:
        self._head_timer = None
        self._refuse(ApiError(408, "the request's head took too long. Send it at once."))

    def _refuse(self, error: ApiError) -> None:
        """Answer with ``error`` if no response has begun, and close the connection."""
        if self.transport.is_closing():
            return
        path = self.conn.head_path if self.idle else self.scope["path"]
        self.transport.write(self.conn.error_answer(error, path))
        self._end_request()
        self.transport.linger()

    def _end_request(self) -> None:
        """Drop what the application still sends, and tell it that the client has disconnected."""
        if self.cycle is not None:
            self.cycle.disconnected = True
            self.cycle.message_event.set()

    def _client_may_send(self) -> bool:
        """Whether the client may still be sending a body, or has sent more requests."""
        unread = self.flow.read_paused or bool(self.conn.unparsed)
        return unread or (self.cycle is not None and self.cycle.more_body)


def _socket_of(transport: Any) -> Any:
    return transport.get_extra_info("socket")
