"""What the server adds to a request, and what a request costs that has next to nothing to compute."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from .agents import Clients
from .server import BenchServer

_HELLO: Any = [{"role": "user", "content": "Hello!"}]
_TOKENS = 24
_PATH = "/v1/chat/completions"
_WARM = 3


async def round_trip_s(server: BenchServer, clients: Clients, count: int) -> float:
    """Return SpecTools' 2o: the median seconds that HTTP and the official client add to a request.

    The request has a cached prompt and one token to compute, which are not part of it. On a busy machine the
    difference can be below 0, which counts as 0.
    """
    options: dict[str, Any] = {"messages": _HELLO, "temperature": 0, "max_tokens": 1}

    async def request() -> float:
        began = time.perf_counter()
        await clients.plain.chat.completions.create(model=clients.model, **options)
        return time.perf_counter() - began

    return max(0.0, await _median_difference(request, lambda: server.generate_s(options), count))


@dataclass(frozen=True, slots=True)
class Overhead:
    """Median seconds that HTTP adds to a whole answer, and to the first text of a streamed one."""

    whole_s: float
    first_text_s: float


async def overhead(server: BenchServer, clients: Clients, count: int) -> Overhead:
    """Return what HTTP adds to an answer of 24 tokens, over ``count`` pairs of each kind.

    A pair is one answer over HTTP, by httpx on a connection that is kept, because OpenAI's client adds
    milliseconds of its own, and one inside the process of the server, on the same engine. Either comes first
    in every second pair.
    """
    options: dict[str, Any] = {
        "messages": _HELLO,
        "temperature": 0,
        "max_tokens": _TOKENS,
        "ignore_eos": True,
    }

    async def whole() -> float:
        began = time.perf_counter()
        (await clients.http.post(_PATH, json={**options, "model": clients.model})).json()
        return time.perf_counter() - began

    async def first_text() -> float:
        began, seconds = time.perf_counter(), 0.0
        body = {**options, "model": clients.model, "stream": True}
        async with clients.http.stream("POST", _PATH, json=body) as response:
            async for line in response.aiter_lines():
                if not seconds and _has_text(line):
                    seconds = time.perf_counter() - began
        return seconds

    return Overhead(
        await _median_difference(whole, lambda: server.generate_s(options), count),
        await _median_difference(first_text, lambda: server.first_text_s(options), count),
    )


def _has_text(line: str) -> bool:
    if not line.startswith("data: {"):
        return False
    choices = json.loads(line.removeprefix("data: "))["choices"]
    return bool(choices and choices[0]["delta"].get("content"))


async def _median_difference(
    over_http: Callable[[], Awaitable[float]], within: Callable[[], float], count: int
) -> float:
    differences = []
    for number in range(_WARM + count):
        inside = within() if number % 2 else None
        outside = await over_http()
        differences.append(outside - (within() if inside is None else inside))
    return statistics.median(differences[_WARM:])
