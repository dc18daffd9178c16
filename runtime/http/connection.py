"""One HTTP/1.1 connection: uvicorn's, with a time limit on request heads and the peer's identity."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from .errors import ApiError
from .identity import peer_app


class Connection(H11Protocol):
    """uvicorn's HTTP/1.1 protocol with a limit on the time a request's head may take.

    uvicorn limits only the time between requests: a client that sends its first line byte by byte (slow
    loris) would hold a connection without end.
    """

    header_timeout_s = 10.0
    """Set on the subclass that a server uses."""

    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Store the peer's app in the state of each request, and start the timer of the first head."""
        super().connection_made(transport)
        self.app_state = {**self.app_state, "peer": peer_app(_socket_of(transport))}
        self._start_timer()

    def data_received(self, data: bytes) -> None:
        """Parse ``data``; the timer runs until a request's head is complete."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_timer()
        elif self._head_timer is None:
            self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer."""
        self._stop_timer()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Answer bytes that are not HTTP, in OpenAI's error format."""
        self._refuse(ApiError(400, f"{msg} Send HTTP/1.1."))

    def _start_timer(self) -> None:
        self._head_timer = self.loop.call_later(self.header_timeout_s, self._head_timed_out)

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

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
