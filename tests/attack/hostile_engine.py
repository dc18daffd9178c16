"""An engine behind a gateway that breaks off, never ends, or sends what no engine should."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

_STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
_CHUNKED = _STREAM.replace(b"connection: close", b"transfer-encoding: chunked")
_DONE = b"data: [DONE]\n\n"
_LIVENESS = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok"


class HostileEngine(ThreadingHTTPServer):
    """An engine that the first message of a request tells how to misbehave. A context manager."""

    daemon_threads = True
    request_queue_size = 100

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.ends = threading.Event()
        self.paths: list[str] = []
        """Of all requests, as they were received."""
        self.drawn = b""
        """What it streams to a request whose first message is :data:`DRAWN`."""
        self._thread = threading.Thread(target=self.serve_forever)
        self.url = f"http://127.0.0.1:{self.server_port}/v1"
        """The address for a gateway."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore that the gateway has closed the connection."""

    def __enter__(self) -> Self:
        """Start to answer."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Close all connections."""
        self.ends.set()
        self.shutdown()
        self._thread.join()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: HostileEngine

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        self.server.paths.append(self.path)
        try:
            message = str(json.loads(body)["messages"][0]["content"])
        except (ValueError, KeyError):
            message = ""
        sent = _STREAM + self.server.drawn if message == DRAWN else BEHAVIOURS.get(message, _LIVENESS)
        self.wfile.write(sent)
        for _ in range(3000 if message == ENDLESS else 0):
            self.wfile.write(_chunk({"content": "x" * 100_000}))
        if message in _STAYING:
            self.server.ends.wait()

    do_GET = do_POST

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


def _chunk(delta: Mapping[str, Any], finish_reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    chunk = {"id": "e", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


_WORD = _chunk({"content": "a"})
_FINISHED = _chunk({}, "stop") + _DONE
_GARBAGE = (
    b"\x00\xff\xfe" * 1000 + b'\n\ndata: {\n\ndata: []\n\ndata: 5\n\ndata: {"choices": 5}\n\n'
    b'data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":-1},{"index":1e300},{"index":true,'
    b'"function":5}]}}]}\n\ndata: {"choices":[{"delta":{"content":NaN}}],"usage":{"completion_tokens":1e999}}'
    b'\n\ndata: {"choices":[{"delta":null}]}\n\ndata: {"choices":[null]}\n\ndata: \xff\n\n:x\n\nid: 5\n\n'
)
_DEEP = b'data: {"choices":[{"index":0,"delta":{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}}]}\n\n"
_KEYS = _chunk({f"k{number}": 1 for number in range(300_000)})
_TWO = b'data: {"choices":[{"index":0,"delta":{"content":"a"}},{"index":1,"delta":{"content":"b"}}]}\n\n'
_REDIRECT = b"HTTP/1.1 307 Temporary Redirect\r\nlocation: /stolen\r\ncontent-length: 0\r\n\r\n"
_ODD_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nx-a: b\r\nset-cookie: a=b\r\nserver: evil\r\n"
    b"transfer-encoding: identity\r\ncontent-length: 5\r\nconnection: x-a\r\n\r\nhello"
)
_UPGRADE = b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n"


_HUGE_HEAD = b"HTTP/1.1 200 OK\r\n%b\r\n" % b"".join(b"x-%d: %b\r\n" % (n, b"y" * 900) for n in range(2000))
_BOMB = gzip.compress(bytes(64 * 2**20))
_ENCODED = _STREAM.replace(b"connection", b"content-encoding: %b\r\nconnection")


DRAWN = "sends drawn bytes"
ENDLESS = "sends without end"
_STAYING = frozenset({"stays silent", "stays silent in a stream", "stays open when it has finished"})
"""Behaviours after which the connection stays open."""
BREAKING_OFF = frozenset(
    {"ends in an event", "ends in a chunk", "sends wrong chunks", "stays silent in a stream"}
)
"""Behaviours after which an answer must not look complete."""

BEHAVIOURS: Mapping[str, bytes] = {
    "stays silent": b"",
    "stays silent in a stream": _STREAM + _WORD,
    "stays open when it has finished": _STREAM + _WORD + _chunk({}, "stop"),
    "ends in an event": _STREAM + _WORD + b'data: {"id":"e","cho',
    "ends in a chunk": _CHUNKED + b"10\r\nabc",
    "sends wrong chunks": _CHUNKED + b"zz\r\nabc\r\n",
    "sends garbage": _STREAM + _GARBAGE + _FINISHED,
    "sends a huge event": _STREAM + b"data: " + b"x" * (9 * 2**20),
    "sends many events": _STREAM + _WORD * 30_000 + _FINISHED,
    "sends blank lines": _STREAM + b"\n" * 400_000 + _FINISHED,
    "sends chunks of one byte": _CHUNKED + b"1\r\n\n\r\n" * 100_000 + b"0\r\n\r\n",
    "sends many keys": _STREAM + _KEYS + _FINISHED,
    "sends deep JSON": _STREAM + _DEEP + _FINISHED,
    "sends two choices": _STREAM + _TWO + _DONE,
    ENDLESS: _STREAM,
    "sends a gzip bomb": _ENCODED % b"gzip" + _BOMB,
    "sends a zstd bomb": _ENCODED % b"zstd" + _BOMB,
    "sends a huge head": _HUGE_HEAD,
    "sends many early hints": b"HTTP/1.1 103 \r\n\r\n" * 60_000 + _STREAM + _WORD + _FINISHED,
    "sends early hints": b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" * 5 + _STREAM + _FINISHED,
    "sends an odd head": _ODD_HEAD,
    "switches protocols": _UPGRADE,
    "redirects": _REDIRECT,
    "speaks no HTTP": b"SSH-2.0-x\r\n\r\n",
    "closes": b"",
}
"""What the engine sends, by the content of a request's first message, before it closes the connection."""
