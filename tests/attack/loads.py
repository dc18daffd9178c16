"""Clients that hold connections to a server without reading or writing as they should."""

from __future__ import annotations

import json
import re
import socket
from contextlib import ExitStack
from typing import Any

from tests.attack.server_process import ServerProcess
from tests.attack.wire import CHAT, LONG, connect, post

_SMALL_BUFFER = 4096
_TOOL = {
    "type": "function",
    "function": {"name": "read", "parameters": {"type": "object", "properties": {"a": {"type": "string"}}}},
}


class Clients(ExitStack):
    """Connections of the attacker, which are closed at the end of the block."""

    def __init__(self, server: ServerProcess) -> None:
        super().__init__()
        self._server = server

    def connect(self, receive_bytes: int | None = None) -> socket.socket:
        return self.enter_context(connect(self._server.port, receive_bytes=receive_bytes))

    def send(self, path: str, body: Any, receive_bytes: int | None = None) -> socket.socket:
        """Send a request on a new connection; nothing reads the answer."""
        connection = self.connect(receive_bytes)
        connection.sendall(post("", path, body).to_bytes(self._server.tokens["attacker"]))
        return connection

    def streams(self, number: int) -> None:
        """Request long streams and read nothing."""
        for _ in range(number):
            body = {**LONG, "stream": True, "logprobs": True, "top_logprobs": 20}
            self.send(CHAT, body, _SMALL_BUFFER)

    def refusals(self, number: int) -> None:
        """Pipeline requests that are refused, with a long Host that the refusal repeats, and read nothing."""
        refused = f"GET / HTTP/1.1\r\nhost: {'e' * 16_000}\r\n\r\n".encode()
        for _ in range(number):
            connection = self.connect(_SMALL_BUFFER)
            connection.setblocking(False)
            try_to_send(connection, refused * 400)

    def unfinished_bodies(self, number: int) -> list[tuple[socket.socket, bytes]]:
        """Send requests without the last 100 bytes; return the connections and these bytes."""
        body = json.dumps({**LONG, "user": "a" * 100}).encode()
        data = post("", CHAT, body).to_bytes(self._server.tokens["attacker"])
        connections = [self.connect() for _ in range(number)]
        for connection in connections:
            connection.sendall(data[:-100])
        return [(connection, data[-100:]) for connection in connections]

    def control_tokens(self, number: int) -> None:
        """Send texts that take long to tokenize."""
        for _ in range(number):
            self.send(CHAT, {"messages": [{"role": "user", "content": "<|im_end|>" * 400_000}]})

    def tool_outputs(self, number: int) -> None:
        """Submit outputs that take long to tokenize to a running answer."""
        first = self.send(CHAT, {**LONG, "stream": True, "tools": [_TOOL]})
        received = b""
        while not (found := re.search(rb"chatcmpl-[0-9a-f]+", received)):
            received += first.recv(4096)
        outputs = [
            {"name": "read", "params": {"a": str(each)}, "output": "<|im_end|>" * 12_000}
            for each in range(number)
        ]
        self.send(f"/v1/cache-tool-output/{found[0].decode()}", outputs)


def try_to_send(connection: socket.socket, data: bytes) -> None:
    """Send what the connection takes; the server may have closed it."""
    try:
        connection.send(data)
    except OSError:
        return
