"""Hostile engines behind ``agentrt gateway``."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

from .drawn_streams import draw_streams
from .freezes import LIMIT_S, shortest_wait
from .hostile_engine import BEHAVIOURS, BREAKING_OFF, DRAWN, HostileEngine
from .other_client import OtherClient
from .outcomes import Outcomes
from .server_process import ServerProcess
from .wire import Answer, Request, connect, exchange, post

_UPSTREAM_TIMEOUT_S: Final = 2
_TIMEOUT_S: Final = 30
_MOST_GROWN_MB: Final = 128.0
"""By which a gateway may be larger while it relays one answer."""
_NOT_READ_S: Final = 1.0
_SETTLE_S: Final = 20.0
_EXPECTED: Final = frozenset({502, 504})
_TOOL: Final = {"type": "function", "function": {"name": "read"}}
_QUICK: Final = (
    "stays silent in a stream",
    "ends in an event",
    "sends wrong chunks",
    "sends garbage",
    "sends without end",
    "sends a gzip bomb",
    "redirects",
)
_DRAWN: Final = {False: 200, True: 5}
"""Streams that are drawn, by whether little is tried."""

Row = tuple[str, bool, int, float, float, float]
"""Behaviour, tools, status, seconds, ms that another client waited, MB by which the gateway grew."""
COLUMNS: Final = ("an engine that", "tools", "status", "s", "another client waited ms", "the gateway grew MB")


def attack_by_engines(quick: bool, outcomes: Outcomes, progress: Callable[[str], None]) -> list[Row]:
    """Send requests to a gateway whose engine misbehaves in each way; return a row for each."""
    rows: list[Row] = []
    options = ("--upstream-timeout", str(_UPSTREAM_TIMEOUT_S))
    with HostileEngine() as engine, ServerProcess("gateway", "--upstream", engine.url, *options) as gateway:
        with OtherClient(gateway.port, gateway.tokens["other"], chats=False) as other:
            exchange(gateway.port, Request("", "GET", "/v1/models"), gateway.tokens["attacker"])
            before = gateway.resources().descriptors
            for name in BEHAVIOURS:
                for tools in (True, False):
                    if not quick or (name in _QUICK and tools):
                        progress(f"an engine that {name}")
                        rows.append(_attack(gateway, other, name, tools, outcomes))
            drawn: list[Row] = []

            def attack(stream: bytes) -> None:
                engine.drawn = stream
                tools = len(drawn) % 2 == 0
                progress(f"an engine that {DRAWN}")
                drawn.append(_attack(gateway, other, DRAWN, tools, outcomes))

            draw_streams(_DRAWN[quick], attack)
            drawn.sort(key=lambda row: row[4])
            rows += [
                (f"{DRAWN}, median wait", *drawn[len(drawn) // 2][1:]),
                (f"{DRAWN}, longest wait", *drawn[-1][1:]),
            ]
        _count_descriptors(gateway, before, outcomes)
        if "/stolen" in engine.paths:
            outcomes.fail("redirects", "the gateway has followed a redirection")
        outcomes.add_faults(gateway)
    return rows


def _attack(gateway: ServerProcess, other: OtherClient, name: str, tools: bool, outcomes: Outcomes) -> Row:
    body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": name}]}
    request = post(
        f"an engine that {name}", "/v1/chat/completions", {**body, "tools": [_TOOL]} if tools else body
    )
    answers: list[Answer] = []

    def act() -> None:
        if name == "sends without end":
            answers.append(_not_read(gateway, request))
        else:
            answers.append(exchange(gateway.port, request, gateway.tokens["attacker"], _TIMEOUT_S))

    begun = time.monotonic()
    with _Peak(gateway) as peak:
        waited = shortest_wait(other, act, outcomes, request.name)
    answer = answers[0]
    outcomes.add(request, answer, _EXPECTED)
    outcomes.freeze(request.name, waited, LIMIT_S)
    _check(answer, name, outcomes)
    if peak.grown_mb > _MOST_GROWN_MB:
        outcomes.fail(name, f"the gateway grew by {peak.grown_mb:.0f} MB")
    seconds = round(time.monotonic() - begun, 2)
    return (name, tools, answer.status, seconds, round(1000 * waited, 1), round(peak.grown_mb, 1))


def _check(answer: Answer, name: str, outcomes: Outcomes) -> None:
    """Check that an answer which the engine broke off does not look complete."""
    if name not in BREAKING_OFF or answer.status != 200 or not answer.complete:
        return
    events = list(answer.events())
    if not (events and isinstance(events[-1], dict) and "error" in events[-1]):
        outcomes.fail(name, f"the answer looks complete: {answer.body[-200:]!r}")


def _not_read(gateway: ServerProcess, request: Request) -> Answer:
    """Send a request, read nothing for some time, then disconnect; return the head of the answer."""
    with connect(gateway.port, _TIMEOUT_S, 4096) as connection:
        connection.sendall(request.to_bytes(gateway.tokens["attacker"]))
        time.sleep(_NOT_READ_S)
        head = connection.recv(200)
    return Answer(int(head.split(b" ")[1]) if head else 0, b"", False)


class _Peak:
    """The most memory by which a process grows during a block."""

    def __init__(self, server: ServerProcess) -> None:
        self._server = server
        self._first = server.resources().rss_mb
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._sample)
        self.grown_mb = 0.0

    def _sample(self) -> None:
        while not self._ends.wait(0.02) and self._server.alive():
            self.grown_mb = max(self.grown_mb, self._server.resources().rss_mb - self._first)

    def __enter__(self) -> _Peak:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()


def _count_descriptors(gateway: ServerProcess, before: int, outcomes: Outcomes) -> None:
    end = time.monotonic() + _SETTLE_S
    while (held := gateway.resources().descriptors - before) > 0 and time.monotonic() < end:
        time.sleep(0.1)
    outcomes.leaked["descriptors"] += max(0, held)
    if held > 0:
        outcomes.note("engines", f"{held} descriptors are held still")
