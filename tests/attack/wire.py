"""HTTP requests as bytes, and the answers to them."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator
from typing import Any, NamedTuple

JSON = (("content-type", "application/json"),)
HELLO = [{"role": "user", "content": "Hello!"}]
CHAT = "/v1/chat/completions"
LONG = {"messages": HELLO, "ignore_eos": True, "max_tokens": 1500}
"""A chat whose answer takes seconds."""


class Request(NamedTuple):
    """A request that a client sends as it is, right or wrong."""

    name: str
    """What it tries, for the table of problems."""
    method: str
    path: str
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()

    def to_bytes(self, token: str | None) -> bytes:
        """Return head and body; host, token and length are added unless the headers have them."""
        given = {name.lower() for name, _ in self.headers}
        lines = [f"{self.method} {self.path} HTTP/1.1"]
        if "host" not in given:
            lines.append("host: 127.0.0.1")
        if token is not None and "authorization" not in given:
            lines.append(f"authorization: Bearer {token}")
        if not {"content-length", "transfer-encoding"} & given:
            lines.append(f"content-length: {len(self.body)}")
        lines += [f"{name}: {value}" for name, value in (*self.headers, ("connection", "close"))]
        return "\r\n".join(lines).encode("latin-1", "replace") + b"\r\n\r\n" + self.body


def post(name: str, path: str, body: object) -> Request:
    """Return a request with a JSON body; bytes are taken as they are."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Request(name, "POST", path, content, JSON)


class Answer(NamedTuple):
    """A response; ``status`` is 0 if there was none, and ``complete`` whether the body came to its end."""

    status: int = 0
    body: bytes = b""
    complete: bool = False
    content_type: str = ""

    def json(self) -> Any:
        return json.loads(self.body)

    def events(self) -> Iterator[Any]:
        """Yield the data of all events of a stream: JSON, or the text if it is not JSON."""
        for line in self.body.decode("utf-8", "replace").split("\n"):
            if line.startswith("data: "):
                try:
                    yield json.loads(line[6:])
                except (ValueError, RecursionError):
                    yield line[6:]


def connect(port: int, timeout_s: float = 60, receive_bytes: int | None = None) -> socket.socket:
    """Return a connection, with a receive buffer of ``receive_bytes`` if they are given."""
    connection = socket.socket()
    if receive_bytes is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    connection.settimeout(timeout_s)
    try:
        connection.connect(("127.0.0.1", port))
    except OSError:
        connection.close()
        raise
    return connection


def exchange(port: int, request: Request, token: str | None, timeout_s: float = 60) -> Answer:
    """Send a request on a connection of its own; return the answer, as far as it came."""
    try:
        with connect(port, timeout_s) as connection:
            send(connection, request.to_bytes(token))
            return receive(connection, request.method)
    except OSError:
        return Answer()


def send(connection: socket.socket, data: bytes) -> None:
    """Send ``data``, or as much of it as the server takes before it refuses the rest."""
    try:
        connection.sendall(data)
    except (BrokenPipeError, ConnectionResetError):
        return  # its answer may be there all the same


def receive(connection: socket.socket, method: str = "GET") -> Answer:
    """Return the answer that arrives on a connection."""
    with http.client.HTTPResponse(connection, method=method) as response:
        body, complete = b"", False
        try:
            response.begin()
            body, complete = response.read(), True
        except http.client.IncompleteRead as error:
            body = error.partial
        except (OSError, http.client.HTTPException):
            if response.headers is None:
                return Answer()
        return Answer(response.status, body, complete, response.headers.get_content_type())
