"""Requests that are sent to the engine again, where no part of an answer has begun."""

from __future__ import annotations

import asyncio
from typing import Final

import httpx

_PAUSES_S: Final = (0.1, 0.4)
"""Before each repetition. A balancer finds another engine in that time; a restarted one takes longer."""
_REFUSALS: Final = (502, 503)
_REPEATABLE: Final = (b"/chat/completions", b"/completions", b"/embeddings")
"""What a POST to such a path changes is nothing, even if the engine had begun."""


class RetryingTransport(httpx.AsyncBaseTransport):
    """Repeats a request, twice at most, whose connection is refused or that is answered with a 502 or 503.

    A connection that is refused has carried no request. After a 502 or 503, only requests are repeated that
    change nothing, and not if the answer has a ``Retry-After``: its client is told when. Whatever else the
    engine sends is returned, so that no stream is begun twice.
    """

    def __init__(self, transport: httpx.AsyncBaseTransport) -> None:
        """``transport`` sends each request once."""
        self._transport = transport

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Return the response's head."""
        for pause_s in _PAUSES_S:
            try:
                response = await self._transport.handle_async_request(request)
            except httpx.ConnectError:
                pass
            else:
                if not (_is_refusal(response) and _is_repeatable(request)):
                    return response
                await response.aclose()
            await asyncio.sleep(pause_s)
        return await self._transport.handle_async_request(request)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._transport.aclose()


def _is_refusal(response: httpx.Response) -> bool:
    return response.status_code in _REFUSALS and "retry-after" not in response.headers


def _is_repeatable(request: httpx.Request) -> bool:
    target: bytes = request.extensions["target"]
    return request.method in ("GET", "HEAD") or target.partition(b"?")[0].endswith(_REPEATABLE)
