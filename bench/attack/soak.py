"""Mixed load for a long time: memory, descriptors, threads and KV blocks of the server."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from .leaks import Sample
from .metrics import count_leaks, used_blocks
from .outcomes import Outcomes
from .server_process import ServerProcess
from .wire import Request, connect, exchange, post, send

_CLIENTS: Final = 3
_SAMPLES: Final = 720
_WORDS: Final = ("mail", "note", "plan", "garden", "roof", "dentist", "friday", "invoice", "oslo", "weather")
_CHAT: Final = "/v1/chat/completions"
_APPS: Final = ("attacker", "other")
_MEMORY_MIB: Final = "16"

Row = tuple[float, float, int, int, int]
COLUMNS: Final = ("s", "resident MB", "descriptors", "threads", "KV blocks in use")


def soak(seconds: float, outcomes: Outcomes, progress: Callable[[str], None]) -> list[Sample]:
    """Send mixed requests for ``seconds``; return what the server held meanwhile."""
    samples: list[Sample] = []
    with ServerProcess("serve", "--memory-mib", _MEMORY_MIB) as server:
        exchange(server.port, Request("", "GET", "/health"), None)
        before = server.resources()
        ends = threading.Event()
        clients = [_Client(server, number, ends, outcomes) for number in range(_CLIENTS)]
        for client in clients:
            client.start()
        begun = time.monotonic()
        try:
            while (passed := time.monotonic() - begun) < seconds:
                samples.append(Sample(passed, *server.resources(), used_blocks(server)))
                if len(samples) % 20 == 1:
                    progress(f"soak {passed:.0f} of {seconds:.0f} s: {samples[-1].rss_mb:.0f} MB")
                ends.wait(seconds / _SAMPLES)
        finally:
            ends.set()
            for client in clients:
                client.join()
        count_leaks(server, before, outcomes, "soak")
        outcomes.add_faults(server)
    return samples


def rows_of(samples: list[Sample]) -> list[Row]:
    """Return the rows of the table of samples."""
    return [
        (round(each.seconds, 1), round(each.rss_mb, 1), each.descriptors, each.threads, each.blocks)
        for each in samples
    ]


class _Client(threading.Thread):
    """A client that sends random requests until ``ends`` is set."""

    def __init__(self, server: ServerProcess, number: int, ends: threading.Event, outcomes: Outcomes) -> None:
        super().__init__()
        self._server = server
        self._ends = ends
        self._outcomes = outcomes
        self._chance = random.Random(number)
        self._token = server.tokens[_APPS[number % len(_APPS)]]
        self._acts = (self._chat, self._chat, self._json, self._context, self._refused, self._disconnect)

    def run(self) -> None:
        """Send requests of every kind."""
        while not self._ends.is_set():
            self._chance.choice(self._acts)()

    def _send(self, request: Request) -> bytes:
        answer = exchange(self._server.port, request, self._token)
        self._outcomes.add(request, answer)
        return answer.body

    def _body(self, **more: Any) -> dict[str, Any]:
        text = " ".join(self._chance.choices(_WORDS, k=self._chance.randint(1, 400)))
        return {"messages": [{"role": "user", "content": text}], "max_tokens": 8, **more}

    def _chat(self) -> None:
        stream = self._chance.random() < 0.5
        self._send(post("soak: chat", _CHAT, self._body(stream=stream, temperature=self._chance.random())))

    def _json(self) -> None:
        names = self._chance.sample(_WORDS, 3)
        schema = {"type": "object", "properties": {name: {"type": "integer"} for name in names}}
        form = {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}
        self._send(post("soak: JSON", _CHAT, self._body(response_format=form)))

    def _context(self) -> None:
        made = json.loads(self._send(post("soak: context", "/v1/contexts", {})))["id"]
        for _ in range(2):
            self._send(post("soak: turn", f"/v1/contexts/{made}/chat/completions", self._body()))
        self._send(Request("soak: deletion", "DELETE", f"/v1/contexts/{made}"))

    def _refused(self) -> None:
        self._send(post("soak: refused", _CHAT, self._body(temperature=-1, stop=[1] * 50)))

    def _disconnect(self) -> None:
        body = self._body(stream=True, ignore_eos=True, max_tokens=500)
        with connect(self._server.port, 60) as connection:
            send(connection, post("", _CHAT, body).to_bytes(self._token))
            connection.recv(500)
