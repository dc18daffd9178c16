"""Streamed responses that release what they hold when they end."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Any

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send


class ClosingStreamingResponse(StreamingResponse):
    """A streamed response that awaits ``close`` when its body has ended or the client has disconnected."""

    def __init__(
        self,
        body: AsyncGenerator[str, None] | AsyncGenerator[bytes, None],
        close: Callable[[], Awaitable[None]],
        **options: Any,
    ) -> None:
        """``options`` are those of Starlette's responses: status, headers, media type."""
        super().__init__(body, **options)
        self._body = body
        self._close = close

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the body, then close it and await ``close``."""
        try:
            async with aclosing(self._body):
                await super().__call__(scope, receive, send)
        finally:
            await self._close()


class EventStreamResponse(ClosingStreamingResponse):
    """Server-sent events; ``events`` yields whole events, each with its final blank line."""

    def __init__(
        self,
        events: AsyncGenerator[str, None],
        close: Callable[[], Awaitable[None]],
        headers: Mapping[str, str],
    ) -> None:
        """See :class:`ClosingStreamingResponse`."""
        headers = {"cache-control": "no-store", **headers}
        super().__init__(events, close, media_type="text/event-stream", headers=headers)
