"""Engines that send fixed bytes, whatever they receive."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeAlias

import httpx

from tests.runtime.serving.http.serving import Running
from tests.runtime.serving.server.conftest import HELLO

TOOL = {"type": "function", "function": {"name": "read"}}
STREAMED: Any = {"model": "m", "messages": HELLO, "stream": True, "tools": [TOOL]}
CHAT = "/v1/chat/completions"
OUTPUT: Any = {"name": "read", "params": {"path": "a"}, "output": "the text"}

STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
FIRST = b'data: {"id": "x", "choices": [{"index": 0, "delta": {"content": "hi"}}]}\n\n'
FINISHED = b'data: {"id": "x", "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}\n\n'
STOP = FINISHED.replace(b"tool_calls", b"stop")
DONE = b"data: [DONE]\n\n"
READ = r'{"index": 0, "id": "c", "function": {"name": "read", "arguments": "{\"path\": \"a\"}"}}'
CALL = FIRST.replace(b'{"content": "hi"}', b'{"tool_calls": [%b]}' % READ.encode())


@contextmanager
def streaming(gateway: Running, body: Any = STREAMED, **headers: str) -> Iterator[tuple[str, Iterator[Any]]]:
    """A stream that has begun: its id, and the data of the events that follow, as JSON except ``[DONE]``."""
    with httpx.stream("POST", gateway.url + CHAT, json=body, timeout=60, headers=headers) as answer:
        assert answer.status_code == 200, answer.read()
        events = (line[6:] for line in answer.iter_lines() if line.startswith("data: "))
        data = (event if event == "[DONE]" else json.loads(event) for event in events)
        yield next(data)["id"], data


def submit(gateway: Running, id: str, *outputs: Any, **headers: str) -> Any:
    """Submit outputs; return how many were taken, or the status of the refusal."""
    path = f"{gateway.url}/v1/cache-tool-output/{id}"
    answer = httpx.post(path, json=outputs or [OUTPUT], headers=headers, timeout=60)
    return answer.json().get("cached", answer.status_code)


class Scripted:
    """An engine that sends its first connection ``answer``, the second ``next_answer``, and others ``then``.

    Each is that before it by default. ``held`` follows the first answer once :attr:`go_on` is set. A
    connection is then closed, or ``stays`` open without a word. :meth:`play` begins anew.
    """

    def __init__(self, answer: bytes = b"", *, port: int = 0, **script: Any) -> None:
        self._listener = socket.create_server(("127.0.0.1", port))
        self._connections: list[socket.socket] = []
        self.go_on = threading.Event()
        self.play(answer, **script)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def play(
        self,
        answer: bytes,
        *,
        held: bytes = b"",
        next_answer: bytes | None = None,
        then: bytes | None = None,
        stays: bool = False,
    ) -> None:
        self._close_all()
        self._held, self._stays = held, stays
        self._answers = [answer, answer if next_answer is None else next_answer]
        self._answers.append(self._answers[1] if then is None else then)
        self.go_on.clear()
        self.heads: list[bytes] = []
        """Of the requests, as they were received."""
        self.bodies: list[bytes] = []

    def _run(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with suppress(ConnectionError):  # who refuses an answer closes
                self._read_request(connection)
                connection.sendall(self._answers[min(len(self.heads), 3) - 1])
                if len(self.heads) == 1 and self._held:
                    self.go_on.wait(60)
                    connection.sendall(self._held)
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
        self.bodies.append(body)
        self.heads.append(head)

    def _close_all(self) -> None:
        while self._connections:
            self._connections.pop().close()

    def close(self) -> None:
        self.go_on.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()
        self._close_all()


Script: TypeAlias = Callable[..., Scripted]
"""Starts a scripted engine."""
Play: TypeAlias = Callable[..., Running]
"""Gives the engine behind a gateway its script, and returns the gateway."""
