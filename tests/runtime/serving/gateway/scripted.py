"""Engines that send fixed bytes, whatever they receive."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable
from typing import Any, TypeAlias

from tests.runtime.serving.server.conftest import HELLO

TOOL = {"type": "function", "function": {"name": "read"}}
STREAMED: Any = {"model": "m", "messages": HELLO, "stream": True, "tools": [TOOL]}


class Scripted:
    """An engine that sends its first connection ``answer``, the second ``next_answer``, and others ``then``.

    Each is that before it by default. ``held`` follows the first answer once :attr:`go_on` is set. A
    connection is then closed, or ``stays`` open without a word.
    """

    def __init__(
        self,
        answer: bytes,
        *,
        held: bytes = b"",
        next_answer: bytes | None = None,
        then: bytes | None = None,
        stays: bool = False,
        port: int = 0,
    ) -> None:
        self._answer, self._held, self._stays = answer, held, stays
        self._next_answer = answer if next_answer is None else next_answer
        self._then = self._next_answer if then is None else then
        self._listener = socket.create_server(("127.0.0.1", port))
        self._connections: list[socket.socket] = []
        self.go_on = threading.Event()
        self.heads: list[bytes] = []
        """Of the requests, as they were received."""
        self.bodies: list[bytes] = []
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._read_request(connection)
            if len(self.heads) == 1:
                connection.sendall(self._answer)
                if self._held:
                    self.go_on.wait(60)
                    connection.sendall(self._held)
            else:
                connection.sendall(self._next_answer if len(self.heads) == 2 else self._then)
            if self._stays:
                self._connections.append(connection)
            else:
                connection.close()

    def _read_request(self, connection: socket.socket) -> None:
        request = connection.recv(65536)
        # Closing with some of the request unread would reset the connection, the answer and all.
        head, _, body = request.partition(b"\r\n\r\n")
        length = re.search(rb"(?i)content-length: (\d+)", head)
        while length and len(body) < int(length[1]):
            body += connection.recv(65536)
        self.heads.append(head)
        self.bodies.append(body)

    def close(self) -> None:
        self.go_on.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()
        for connection in self._connections:
            connection.close()


Script: TypeAlias = Callable[..., Scripted]
"""Starts a scripted engine."""
