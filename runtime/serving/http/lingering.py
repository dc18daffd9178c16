"""Closing a connection so that its client can still read what it was sent."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

LINGER_S: Final = 10.0
"""Seconds for which a closing connection waits for its client to close, too."""


class LingeringTransport:
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
        """Do all else as the transport does."""
        return getattr(self._transport, name)

    def is_closing(self) -> bool:
        """Return whether the connection is closing or closed."""
        return self._closing or self._transport.is_closing()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send ``data``, unless the connection closes."""
        if not self._closing:
            self._transport.write(data)

    def pause_reading(self) -> None:
        """Receive no more data, unless the connection closes."""
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
        """Count what has arrived while the connection lingers."""
        self._bytes_left -= len(data)
        if self._bytes_left < 0:
            self._transport.close()

    def hurry(self, seconds: float) -> None:
        """Linger for no more than ``seconds`` from now on."""
        self._seconds = min(self._seconds, seconds)
        if self._timer is not None:
            self._start_timer()

    def lost(self) -> None:
        """Note that the connection is closed."""
        self._closing = True
        if self._timer is not None:
            self._timer.cancel()

    def _start_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(self._seconds, self._transport.close)
