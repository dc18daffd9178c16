"""Another client of an attacked server, in a process of its own: how long it waits for its answers."""

from __future__ import annotations

import http.client
import json
import threading
import time
from typing import Final, NamedTuple, Self

from ..common.process import SideProcess

_BETWEEN_S: Final = {"health": 0.005, "chat": 0.02}
_CHAT: Final = json.dumps({"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1}).encode()
_TIMEOUT_S: Final = 60


class Wait(NamedTuple):
    """A request of the other client: when it was sent, by ``time.monotonic``, and when it was answered."""

    route: str
    begun_s: float
    ended_s: float
    status: int
    """0 if it was not answered."""

    @property
    def seconds(self) -> float:
        """How long the answer took."""
        return self.ended_s - self.begun_s


class OtherClient:
    """A client that requests ``/health`` and, if ``chats``, a chat of one token, over and over.

    A context manager. Its process shares nothing with the attacker's, so that a wait is the server's.
    """

    def __init__(self, port: int, token: str, *, chats: bool = True) -> None:
        """Start the process."""
        self._process = SideProcess(_Polls, port, token, chats)

    def begin(self) -> None:
        """Begin to send requests, and return once each kind was answered."""
        self._process.call("begin")

    def end(self) -> list[Wait]:
        """Stop, and return all requests since :meth:`begin`."""
        found: list[Wait] = self._process.call("end")
        return found

    def __enter__(self) -> Self:
        """Return the client itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the process."""
        self._process.__exit__(None, None, None)


class _Polls:
    """The requests, each kind on a thread and a connection of its own."""

    def __init__(self, port: int, token: str, chats: bool) -> None:
        self._port, self._token = port, token
        self._routes = ("health", "chat") if chats else ("health",)
        self._threads: list[threading.Thread] = []
        self._waits: list[Wait] = []
        self._stop = threading.Event()

    def begin(self) -> None:
        self._stop.clear()
        self._waits = []
        answered = [threading.Event() for _ in self._routes]
        self._threads = [
            # Daemons: the process ends with that of the bench, however that ends.
            threading.Thread(target=self._poll, args=(route, event), daemon=True)
            for route, event in zip(self._routes, answered, strict=True)
        ]
        for thread in self._threads:
            thread.start()
        for event in answered:
            event.wait(_TIMEOUT_S)

    def end(self) -> list[Wait]:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        return self._waits

    def _poll(self, route: str, answered: threading.Event) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=_TIMEOUT_S)
        while not self._stop.is_set():
            begun = time.monotonic()
            status = self._request(connection, route)
            self._waits.append(Wait(route, begun, time.monotonic(), status))
            answered.set()
            self._stop.wait(_BETWEEN_S[route])
        connection.close()

    def _request(self, connection: http.client.HTTPConnection, route: str) -> int:
        headers = {"authorization": f"Bearer {self._token}", "content-type": "application/json"}
        try:
            if route == "health":
                connection.request("GET", "/health", headers=headers)
            else:
                connection.request("POST", "/v1/chat/completions", _CHAT, headers)
            response = connection.getresponse()
            response.read()
        except (OSError, http.client.HTTPException):
            connection.close()
            return 0
        return response.status
