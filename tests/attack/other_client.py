"""Another client of an attacked server, in a process of its own: how long it waits for its answers."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, Self

from agentrt.bench.common.process import SideProcess
from tests.attack.campaign import LIMIT_S, Campaign
from tests.attack.server_process import ServerProcess
from tests.attack.wire import CHAT, Answer, Request

_BETWEEN_S = {"/health": 0.005, CHAT: 0.02}
_CHAT = json.dumps({"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1}).encode()
_TIMEOUT_S = 60
_MEASUREMENTS = 3
"""Of a wait that is too long: the shortest counts, since other programs may have delayed it."""


class Wait(NamedTuple):
    """A request of the other client, with times of ``time.monotonic``; status 0 is no answer."""

    route: str
    begun_s: float
    ended_s: float
    status: int

    @property
    def seconds(self) -> float:
        return self.ended_s - self.begun_s


class OtherClient:
    """A client that requests ``/health`` and, if ``chats``, a chat of one token, over and over.

    A context manager. Its process shares nothing with the attacker's, so that a wait is the server's.
    """

    def __init__(self, server: ServerProcess, campaign: Campaign, *, chats: bool = True) -> None:
        self._campaign = campaign
        self._server = server
        self._process = SideProcess(_Polls, server.port, server.tokens["other"], chats)

    def begin(self) -> None:
        """Begin to send requests, and return once each kind was answered."""
        self._process.call("begin")

    def end(self, name: str) -> list[Wait]:
        """Stop, count the requests that failed while ``name`` was tried, and return all."""
        waits: list[Wait] = self._process.call("end")
        if failed := [wait for wait in waits if wait.status != 200]:
            problem = f"{len(failed)} requests of another client failed, {failed[0].route} {failed[0].status}"
            self._campaign.fail(name, problem, "others_failed", len(failed))
        return waits

    def longest_wait(self, act: Callable[[], object], name: str) -> float:
        """Return the longest wait while ``act`` runs, in seconds."""
        self.begin()
        try:
            act()
        finally:
            waits = self.end(name)
        return max((wait.seconds for wait in waits), default=0.0)

    def shortest_wait(self, act: Callable[[], object], name: str) -> float:
        """Return the longest wait during ``act``; if it is too long, the shortest of three repetitions."""
        shortest = self.longest_wait(act, name)
        for _ in range(_MEASUREMENTS - 1):
            if shortest > LIMIT_S:
                shortest = min(shortest, self.longest_wait(act, name))
        return shortest

    def measure_request(self, request: Request) -> tuple[Answer, float]:
        """Send a request of the attacker; return its first answer and how long this client waited."""
        answers: list[Answer] = []
        seconds = self.shortest_wait(lambda: answers.append(self._server.attack(request, 120)), request.name)
        return answers[0], seconds

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.__exit__(None, None, None)


class _Polls:
    """The requests, each kind on a thread and a connection of its own."""

    def __init__(self, port: int, token: str, chats: bool) -> None:
        self._port = port
        self._headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
        self._routes = ("/health", CHAT) if chats else ("/health",)
        self._threads: Sequence[threading.Thread] = ()
        self._waits: list[Wait] = []
        self._stop = threading.Event()

    def begin(self) -> None:
        self._stop.clear()
        self._waits = []
        answered = threading.Barrier(len(self._routes) + 1, timeout=_TIMEOUT_S)
        # Daemons: the process ends with that of the campaign, however that ends.
        self._threads = [
            threading.Thread(target=self._poll, args=(route, answered), daemon=True) for route in self._routes
        ]
        for thread in self._threads:
            thread.start()
        answered.wait()

    def end(self) -> list[Wait]:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        return self._waits

    def _poll(self, route: str, answered: threading.Barrier) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=_TIMEOUT_S)
        self._request(connection, route)
        answered.wait()
        while not self._stop.is_set():
            self._request(connection, route)
            self._stop.wait(_BETWEEN_S[route])
        connection.close()

    def _request(self, connection: http.client.HTTPConnection, route: str) -> None:
        begun, status = time.monotonic(), 0
        try:
            body = _CHAT if route == CHAT else None
            connection.request("GET" if body is None else "POST", route, body, self._headers)
            with connection.getresponse() as response:
                response.read()
            status = response.status
        except (OSError, http.client.HTTPException):
            connection.close()
        self._waits.append(Wait(route, begun, time.monotonic(), status))
