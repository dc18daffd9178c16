"""HTTP/1.1 of one connection: h11 with a bound on heads, unambiguous bodies, and answers that begin early."""

from __future__ import annotations

from typing import Any, Final

import h11

from .errors import ApiError

MAX_HEAD_BYTES: Final = 1 << 15
_BEGINNING: Final = b"HTTP/1.1 "  # of every answer
_MAX_ZEROS: Final = 8
"""Clients that limit the digits of a chunk's length take at least 16."""


class Http11(h11.Connection):
    """h11's server side of a connection.

    h11 bounds a head that is incomplete, and none that arrives at once. A body that has both a length and a
    transfer encoding ends in two places, and so does one of HTTP/1.0 in chunks: an intermediary that takes
    the other place would see another request behind it (request smuggling, RFC 9112 §6.1, §11.2).
    """

    def __init__(self) -> None:
        """Wait for the first request."""
        super().__init__(h11.SERVER, MAX_HEAD_BYTES)
        self.refusal: ApiError | None = None
        """Says why the latest call of :meth:`next_event` has raised."""
        self.events = 0
        """Calls of :meth:`next_event` that have returned."""
        self._head = b""
        self._method = b""
        self._begun = 0
        """Bytes of the next answer's beginning that were sent."""
        self._zeros: int | None = None
        """Zeros of the next chunk's length that were sent; None outside of chunked bodies."""

    @property
    def unparsed(self) -> bytes:
        """What was received and not parsed."""
        return self.trailing_data[0]

    @property
    def head_path(self) -> str:
        """The path in the head that is incomplete or refused; empty if its first line is, too."""
        words = self._head.partition(b"\n")[0].split()
        return words[1].partition(b"?")[0].decode("latin-1") if len(words) == 3 else ""

    def next_event(self) -> Any:
        """Return h11's next event; where it raises, ``refusal`` says why."""
        in_head = self.their_state is h11.IDLE
        if in_head:
            self._head = self.unparsed
        try:
            event = super().next_event()
            if isinstance(event, h11.Request):
                _check(event, len(self._head) - len(self.unparsed))
                self._head, self._method = b"", event.method
        except h11.RemoteProtocolError as error:
            self.refusal = _refusal(error, in_head)
            raise
        self.events += 1
        return event

    def send_with_data_passthrough(self, event: h11.Event) -> list[bytes] | None:
        """Return the bytes of ``event`` that are still to be sent."""
        pieces = super().send_with_data_passthrough(event)
        if pieces is None:
            return None
        if isinstance(event, h11.Response | h11.InformationalResponse):
            head = b"".join(pieces)
            pieces = [head[self._begun :]]
            self._begun = 0
            if self._method != b"HEAD" and b"\r\ntransfer-encoding: chunked\r\n" in head.lower():
                self._zeros = 0
        elif isinstance(event, h11.EndOfMessage):
            self._zeros = None
        elif self._zeros is not None and any(pieces):
            self._zeros = 0
        return pieces

    def early_byte(self) -> bytes:
        """Return a byte that the answer goes on with, whatever it will be; empty if there is none.

        It is one of the status line, or a leading zero of a chunk's length. It must be sent.
        """
        if self.our_state is h11.SEND_RESPONSE:
            early = _BEGINNING[self._begun : self._begun + 1]
            self._begun += len(early)
            return early
        if self._zeros is not None and self._zeros < _MAX_ZEROS:
            self._zeros += 1
            return b"0"
        return b""

    def error_answer(self, error: ApiError, path: str) -> bytes:
        """Return an answer to a request for ``path`` that ends the connection; empty if one has begun."""
        if self.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return b""
        response = error.response(path)
        headers = [*response.raw_headers, (b"connection", b"close")]
        head = h11.Response(status_code=error.status_code, headers=headers)
        events = (head, h11.Data(data=bytes(response.body)), h11.EndOfMessage())
        return b"".join(self.send(event) or b"" for event in events)


def _check(request: h11.Request, head_bytes: int) -> None:
    """Raise :class:`h11.RemoteProtocolError` for a head that is too large or makes its body ambiguous."""
    if head_bytes > MAX_HEAD_BYTES:
        raise h11.RemoteProtocolError("head too large", error_status_hint=431)
    names = {name for name, _ in request.headers}
    if b"transfer-encoding" in names and (b"content-length" in names or request.http_version < b"1.1"):
        raise h11.RemoteProtocolError("Transfer-Encoding beside Content-Length, or in HTTP/1.0")


def _refusal(error: h11.RemoteProtocolError, in_head: bool) -> ApiError:
    if in_head and error.error_status_hint == 431:
        return ApiError(
            431,
            f"the head of the request has more than {MAX_HEAD_BYTES} bytes. Send fewer or shorter headers.",
            code="head_too_large",
        )
    return ApiError(400, f"the request is not HTTP/1.1 ({error}). Send HTTP/1.1.")
