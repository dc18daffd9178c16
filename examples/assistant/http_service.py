"""A small HTTP service on a free port of the loopback interface, for tools that ask one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from types import TracebackType
from typing import Self
from urllib.parse import parse_qsl, urlsplit

from agentrt.errors import ConfigurationError


@dataclass(frozen=True)
class Reply:
    """What the service answers: an HTTP status, and text of a media type."""

    status: int
    text: str
    media_type: str = "text/plain"


class HttpService:
    """A service that answers GET requests, in a ``with`` block; ``url`` is its address while it runs.

    ``delay`` is the time in seconds it waits before each answer, as a service far away would take. Leaving
    the block interrupts answers that still wait and frees the port.
    """

    def __init__(
        self, name: str, delay: float, answer: Callable[[str, Mapping[str, str]], Reply | None]
    ) -> None:
        """``answer`` takes a path and its query; None for a path that does not exist.

        Raises:
            ConfigurationError: the delay is not between 0 and 60 seconds.
        """
        if not 0 <= delay <= 60:
            raise ConfigurationError(f"the {name} delay is {delay} s; choose between 0 and 60 seconds.")
        self.name = name
        self.delay = delay
        self.url = ""
        self._answer = answer

    def __enter__(self) -> Self:
        """Start serving."""
        self._stopping = Event()
        self._server = _Server(self.delay, self._stopping, self._answer)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = Thread(
            target=self._server.serve_forever,
            kwargs={"poll_interval": 0.05},
            name=f"{self.name} service",
            daemon=True,
        )
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop serving."""
        self._stopping.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(
        self, delay: float, stopping: Event, answer: Callable[[str, Mapping[str, str]], Reply | None]
    ) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.delay = delay
        self.stopping = stopping
        self.answer = answer


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    # One packet per answer: in two, TCP would hold the second back until the first is acknowledged, 40 ms.
    wbufsize = -1
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        """Answer after the delay, or drop the connection if the service stops meanwhile."""
        address = urlsplit(self.path)
        if self.server.stopping.wait(self.server.delay):
            self.close_connection = True
            return
        reply = self.server.answer(address.path, dict(parse_qsl(address.query)))
        self._send(reply or Reply(404, "unknown path"))

    def log_message(self, format: str, *args: object) -> None:
        """Write no access log: standard error belongs to the program."""

    def _send(self, reply: Reply) -> None:
        body = reply.text.encode()
        with suppress(ConnectionError):  # the client may have disconnected during the delay
            self.send_response(reply.status)
            self.send_header("Content-Type", f"{reply.media_type}; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
