"""What the server adds to a request, and what a request costs that has next to nothing to compute."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Any

from ..common.estimates import Estimate, median
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

    differences = await _differences(request, lambda: server.generate_s(options), count)
    return max(0.0, statistics.median(differences))


async def overhead_figures(server: BenchServer, clients: Clients, count: int) -> dict[str, Estimate]:
    """Return what HTTP adds to an answer of 24 tokens and to its first text, over ``count`` pairs each.

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

    added = {
        "server_overhead_ms_p50": await _differences(whole, lambda: server.generate_s(options), count),
        "stream_ttft_overhead_ms_p50": await _differences(
            first_text, lambda: server.first_text_s(options), count
        ),
    }
    return {name: median([1000 * each for each in seconds]) for name, seconds in added.items()}


def _has_text(line: str) -> bool:
    if not line.startswith("data: {"):
        return False
    choices = json.loads(line.removeprefix("data: "))["choices"]
    return bool(choices and choices[0]["delta"].get("content"))


async def _differences(
    over_http: Callable[[], Awaitable[float]], within: Callable[[], float], count: int
) -> list[float]:
    differences = []
    for number in range(_WARM + count):
        inside = within() if number % 2 else None
        outside = await over_http()
        differences.append(outside - (within() if inside is None else inside))
    return differences[_WARM:]
