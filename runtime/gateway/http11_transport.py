"""HTTP/1.1 to one engine over connections that are kept: h11 on asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any, Final

import h11
import httpx

_CONNECT_TIMEOUT_S: Final = 10.0
_KEEP_ALIVE_S: Final = 4.0
"""Shorter than the five seconds after which many servers close idle connections, so that a connection that
is being closed is not used again."""
_MAX_HEAD_BYTES: Final = 100 * 2**10
_MAX_UNREAD_BYTES: Final = 2**18
"""What a connection receives ahead of its reader."""
_PORTS: Final = {"http": 80, "https": 443}


class Http11Transport(httpx.AsyncBaseTransport):
    """Sends requests to the server at one address, whose path is that of each request's ``target``.

    httpx's own transport takes three times as long for a request. For one event loop. Requests beyond the
    connections that are idle open new ones: the caller limits how many there are.
    """

    def __init__(self, root: httpx.URL, timeout_s: float) -> None:
        """Prepare connections to ``root``; none is opened yet. ``timeout_s`` is that of each piece."""
        self._host = root.raw_host.decode("ascii")
        self._port = root.port or _PORTS[root.scheme]
        self._ssl = httpx.create_ssl_context(trust_env=False) if root.scheme == "https" else None
        self._timeout_s = timeout_s
        self._idle: list[_Connection] = []
        """The latest last."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Return the response's head; :meth:`httpx.Response.aclose` gives the connection back or closes it.

        Raises:
            httpx.ConnectError: there is no connection; no part of the request was sent.
            httpx.TimeoutException: there is none within ten seconds, or nothing came for ``timeout_s``.
            httpx.NetworkError: the connection broke.
            httpx.RemoteProtocolError: the server ended it, or what it sends is not HTTP/1.1.
        """
        connection = self._idle.pop() if self._idle else await self._connect()
        try:
            head = await connection.exchange(request)
        except BaseException:
            connection.close()
            raise
        return httpx.Response(
            head.status_code, headers=head.headers.raw_items(), stream=_Body(connection, self._idle)
        )

    async def aclose(self) -> None:
        """Close the idle connections."""
        for connection in tuple(self._idle):
            connection.close()

    async def _connect(self) -> _Connection:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(_CONNECT_TIMEOUT_S):
                _, connection = await loop.create_connection(
                    lambda: _Connection(loop, self._timeout_s),
                    self._host,
                    self._port,
                    ssl=self._ssl,
                    happy_eyeballs_delay=0.25,
                )
        except TimeoutError as error:
            raise httpx.ConnectTimeout(str(error)) from error
        except OSError as error:
            raise httpx.ConnectError(str(error)) from error
        return connection


class _Connection(asyncio.Protocol):
    """One connection, which carries one request at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, timeout_s: float) -> None:
        self._loop = loop
        self._timeout_s = timeout_s
        self._http = h11.Connection(h11.CLIENT, _MAX_HEAD_BYTES)
        self._received = bytearray()
        self._ended = False
        self._error: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._idle: list[_Connection] | None = None
        """The connections among which this one is while it carries no request."""
        self._expiry: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Keep what has come for the reader; what nobody has requested ends the connection."""
        if self._idle is not None:
            self.close()
            return
        self._received += data
        if len(self._received) > _MAX_UNREAD_BYTES:
            self._transport.pause_reading()
        self._wake()

    def eof_received(self) -> None:
        """Note that nothing more comes, which closes the connection."""
        self._end()

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that nothing more comes."""
        self._error = exc
        self._end()

    async def exchange(self, request: httpx.Request) -> h11.Response:
        """Send a request, and return the head of its answer."""
        self._leave_idle()
        with _errors_of_httpx():
            head = h11.Request(
                method=request.method, target=request.extensions["target"], headers=request.headers.raw
            )
            sent = [self._http.send(head), self._http.send(h11.Data(request.content))]
            sent.append(self._http.send(h11.EndOfMessage()))
        self._transport.write(b"".join(filter(None, sent)))
        while True:
            event = await self._next_event()
            if isinstance(event, h11.Response):
                return event
            if not isinstance(event, h11.InformationalResponse):
                raise httpx.RemoteProtocolError("it answered with something other than a response")

    async def next_data(self) -> bytes:
        """Return the next piece of the answer's body; empty at its end."""
        while self._http.their_state is h11.SEND_BODY:
            event = await self._next_event()
            if isinstance(event, h11.Data):
                return bytes(event.data)
        return b""

    def release(self, idle: list[_Connection]) -> None:
        """Put the connection among the ``idle`` ones if its answer is complete; close it if not."""
        complete = self._http.our_state is self._http.their_state is h11.DONE
        # What follows an answer would be taken for that to the next request.
        follows = self._received or (complete and self._http.trailing_data[0])
        if not complete or follows or self._ended or self._transport.is_closing():
            self.close()
            return
        self._http.start_next_cycle()
        self._idle = idle
        idle.append(self)
        self._expiry = self._loop.call_later(_KEEP_ALIVE_S, self.close)

    def close(self) -> None:
        """Close the connection, without what is still to be sent."""
        self._leave_idle()
        self._transport.abort()

    async def _next_event(self) -> Any:
        while True:
            with _errors_of_httpx():
                event = self._http.next_event()
            if event is not h11.NEED_DATA:
                return event
            data = await self._receive()
            if not data and self._http.their_state is h11.SEND_RESPONSE:
                raise httpx.RemoteProtocolError("it ended the connection without an answer")
            with _errors_of_httpx():
                self._http.receive_data(data)

    async def _receive(self) -> bytes:
        """Return what has come; empty once nothing more comes."""
        if not self._received and not self._ended:
            self._waiter = self._loop.create_future()
            try:
                async with asyncio.timeout(self._timeout_s):
                    await self._waiter
            except TimeoutError as error:
                raise httpx.ReadTimeout(f"nothing came for {self._timeout_s} s") from error
            finally:
                self._waiter = None
        if not self._received and self._error is not None:
            raise httpx.ReadError(str(self._error)) from self._error
        data = bytes(self._received)
        self._received.clear()
        self._transport.resume_reading()
        return data

    def _end(self) -> None:
        self._ended = True
        if self._idle is not None:
            self.close()
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _leave_idle(self) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        idle, self._idle = self._idle, None
        if idle is not None and self in idle:
            idle.remove(self)


class _Body(httpx.AsyncByteStream):
    """The body of an answer; closing it gives its connection back."""

    def __init__(self, connection: _Connection, idle: list[_Connection]) -> None:
        self._connection: _Connection | None = connection
        self._idle = idle

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while self._connection is not None and (data := await self._connection.next_data()):
            yield data

    async def aclose(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.release(self._idle)


@contextmanager
def _errors_of_httpx() -> Iterator[None]:
    try:
        yield
    except h11.RemoteProtocolError as error:
        raise httpx.RemoteProtocolError(str(error)) from error
    except h11.LocalProtocolError as error:
        raise httpx.LocalProtocolError(str(error)) from error
