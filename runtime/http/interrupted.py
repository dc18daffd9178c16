"""An error in OpenAI's format for each request that the server ends before its response is complete."""

from __future__ import annotations

import asyncio
from http.client import SERVICE_UNAVAILABLE

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .errors import ApiError
from .strict_json import compact_json


class AnswerInterrupted:
    """ASGI middleware: a request whose task is cancelled is answered with a 503.

    If its response has begun and is a stream of events, the error is the stream's last event. The tasks of
    requests are cancelled only by a server that stops.
    """

    def __init__(self, app: ASGIApp) -> None:
        """``app`` answers the requests."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on; after a cancellation send the error and return normally."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        head: Message | None = None
        complete = False

        async def send_noted(message: Message) -> None:
            nonlocal head, complete
            if message["type"] == "http.response.start":
                head = message
            else:
                complete = not message.get("more_body", False)
            await send(message)

        try:
            await self._app(scope, receive, send_noted)
        except asyncio.CancelledError:
            if not complete:
                await _answer(head, scope, receive, send)


async def _answer(head: Message | None, scope: Scope, receive: Receive, send: Send) -> None:
    error = ApiError(
        SERVICE_UNAVAILABLE,
        "the server has stopped before the answer was complete. Try again when it has restarted.",
        kind="server_error",
        code="server_stopping",
        headers={"connection": "close"},
    )
    if head is None:
        await error.response()(scope, receive, send)
    elif Headers(raw=list(head["headers"])).get("content-type", "").startswith("text/event-stream"):
        # The blank line ends an event of which only a part has been sent.
        event = f"\n\ndata: {compact_json(error.body())}\n\n"
        await send({"type": "http.response.body", "body": event.encode()})
