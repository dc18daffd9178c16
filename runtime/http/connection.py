"""One connection: who is at its other end, and how long it may take to say what it wants."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from .errors import ApiError
from .identity import peer_app


class Connection(H11Protocol):
    """uvicorn's HTTP/1.1, with a bound on the time a request's head may take.

    uvicorn bounds only the time between requests, so that a client which sends its first line byte by byte
    (slow loris) would hold a connection for ever.
    """

    header_timeout_s = 10.0
    """Set on the subclass that a server uses."""

    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Note the peer, and wait for the first request."""
        super().connection_made(transport)
        # What a request sees as its state.
        self.app_state = {**self.app_state, "peer": peer_app(_socket_of(transport))}
        self._expect_head()

    def data_received(self, data: bytes) -> None:
        """Take bytes; as long as they complete no request's head, the time runs."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_timer()
        elif self._head_timer is None:
            self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the time."""
        self._stop_timer()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP."""
        self._refuse(ApiError(400, f"{msg} Send HTTP/1.1."))

    def _expect_head(self) -> None:
        self._head_timer = self.loop.call_later(self.header_timeout_s, self._head_is_late)

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_is_late(self) -> None:
        self._head_timer = None
        self._refuse(ApiError(408, "the request's head took too long. Send it at once."))

    def _refuse(self, error: ApiError) -> None:
        if self.transport.is_closing():
            return
        if self.conn.our_state is h11.IDLE:
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
