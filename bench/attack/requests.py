"""Random requests to every route, and mutations of real clients' bodies, one after the other."""

from __future__ import annotations

import itertools
import json
import random
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import Final

from .api_requests import ApiRequests
from .client_bodies import record_bodies
from .freezes import LIMIT_S, count_failures, measure_request
from .mutations import mutated_bytes, mutated_value, to_json
from .other_client import OtherClient, Wait
from .outcomes import Outcomes
from .server_process import ServerProcess
from .wire import JSON, Request, exchange

_BLOCK: Final = 500
"""Requests between two looks at the waits of the other client."""
_BYTES_SHARE: Final = 0.2
_HEADERS_SHARE: Final = 0.05
_MOST_MEASURED: Final = 5
"""Requests of a block that are sent again to see whether they make others wait."""
_HEADERS: Final = (
    ("x-agentrt-priority", "proactive"),
    ("x-agentrt-priority", "\xff"),
    ("x-session-id", "a" * 3000),
    ("x-session-id", ""),
    ("content-type", "text/plain"),
    ("content-encoding", "gzip"),
    ("content-length", "-1"),
    ("content-length", "99999999999"),
    ("transfer-encoding", "chunked"),
    ("expect", "100-continue"),
    ("host", "evil.example"),
    ("origin", "http://evil.example"),
    ("authorization", "Bearer \xe4"),
)


def attack_by_requests(requests: int, outcomes: Outcomes, progress: Callable[[str], None]) -> None:
    """Send ``requests`` hostile requests to a server while another client uses it.

    A request during which the other client waited too long is sent again, alone.
    """
    chance = random.Random(requests)
    with ServerProcess("serve") as server, OtherClient(server.port, server.tokens["other"]) as other:
        document = json.loads(exchange(server.port, Request("", "GET", "/openapi.json"), _token(server)).body)
        stream = _alternating(ApiRequests(document, chance), _mutations(record_bodies(), chance))
        for first in range(0, requests, _BLOCK):
            progress(f"requests {first} of {requests}")
            block = list(itertools.islice(stream, min(_BLOCK, requests - first)))
            _send_block(server, other, block, outcomes)
        outcomes.add_faults(server)


def _send_block(server: ServerProcess, other: OtherClient, block: list[Request], outcomes: Outcomes) -> None:
    begins = []
    other.begin()
    try:
        for request in block:
            begins.append(time.monotonic())
            outcomes.add(request, exchange(server.port, request, _token(server)))
    finally:
        waits = other.end()
    count_failures(waits, outcomes, "random requests")
    short = [wait.seconds for wait in waits if wait.seconds <= LIMIT_S]
    outcomes.freeze("random requests", max(short, default=0.0), LIMIT_S)
    for request in _suspects(waits, begins, block):
        _, seconds = measure_request(server, other, request, outcomes)
        outcomes.freeze(f"{request.name} {request.body[:200]!r}", seconds, LIMIT_S)


def _suspects(waits: list[Wait], begins: list[float], block: list[Request]) -> list[Request]:
    """Return the requests that were in progress during the longest waits that are too long."""
    long = sorted((wait for wait in waits if wait.seconds > LIMIT_S), key=lambda wait: -wait.seconds)
    found: dict[int, Request] = {}
    for wait in long:
        first = max(0, bisect_right(begins, wait.begun_s) - 1)
        for number in range(first, bisect_right(begins, wait.ended_s)):
            found.setdefault(number, block[number])
    return list(found.values())[:_MOST_MEASURED]


def _mutations(bodies: list[Request], chance: random.Random) -> Iterator[Request]:
    while True:
        for recorded in bodies:
            value = mutated_value(json.loads(recorded.body), chance)
            body = to_json(value)
            if chance.random() < _BYTES_SHARE:
                body = mutated_bytes(body, chance)
            headers = (chance.choice(_HEADERS),) if chance.random() < _HEADERS_SHARE else ()
            kept = () if headers and headers[0][0] == "content-type" else JSON
            if headers and headers[0][0] == "transfer-encoding":
                body += b"\r\n"  # or the server would wait for the end of the first chunk's length
            yield Request(recorded.name, "POST", recorded.path, body, (*kept, *headers))


def _alternating(*streams: Iterator[Request] | ApiRequests) -> Iterator[Request]:
    iterators = [iter(stream) for stream in streams]
    while True:
        for iterator in iterators:
            yield next(iterator)


def _token(server: ServerProcess) -> str:
    return server.tokens["attacker"]
