"""An error for each request that the server ends before its response is complete."""

from __future__ import annotations

import asyncio
from http.client import SERVICE_UNAVAILABLE

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .errors import ApiError
from .strict_json import compact_json


class AnswerInterrupted:
    """ASGI middleware: a request whose task is cancelled is answered with a 503.

    If its response has begun and is a stream of events or of lines of JSON, the error is the last of these.
    The tasks of requests are cancelled only by a server that stops.
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
        sent_last = b"\n"
        complete = False

        async def send_noted(message: Message) -> None:
            nonlocal head, sent_last, complete
            if message["type"] == "http.response.start":
                head = message
            else:
                sent_last = message.get("body", b"") or sent_last
                complete = not message.get("more_body", False)
            await send(message)

        try:
            await self._app(scope, receive, send_noted)
        except asyncio.CancelledError:
            if not complete:
                await _answer(head, sent_last, scope, receive, send)


async def _answer(head: Message | None, sent_last: bytes, scope: Scope, receive: Receive, send: Send) -> None:
    """Send the error after ``head`` and a body that ends in ``sent_last`` so far."""
    error = ApiError(
        SERVICE_UNAVAILABLE,
        "the server has stopped before the answer was complete. Try again when it has restarted.",
        kind="server_error",
        code="server_stopping",
        headers={"connection": "close"},
    )
    if head is None:
        await error.response(scope["path"])(scope, receive, send)
        return
    content_type = Headers(raw=list(head["headers"])).get("content-type", "")
    text = compact_json(error.body(scope["path"]))
    if content_type.startswith("text/event-stream"):
        # The blank line ends an event of which only a part has been sent.
        await send({"type": "http.response.body", "body": f"\n\ndata: {text}\n\n".encode()})
    elif content_type.startswith("application/x-ndjson"):
        line_feed = "" if sent_last.endswith(b"\n") else "\n"
        await send({"type": "http.response.body", "body": f"{line_feed}{text}\n".encode()})
