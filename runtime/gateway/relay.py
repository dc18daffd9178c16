"""What passes a gateway untouched: everything that it has no part in."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import cast

import httpx
from fastapi import Request
from starlette.types import Receive, Scope, Send

from ..http.admission import Admission
from ..http.disconnect import cancel_on_disconnect
from ..http.streaming import ClosingStreamingResponse
from .upstream import Upstream, raw_pieces, sent_back

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Gateway:
    """What all requests to one gateway share."""

    upstream: Upstream
    admission: Admission


def gateway_of(request: Request) -> Gateway:
    """The gateway that a request came to."""
    return cast(Gateway, request.app.state.gateway)


class Relayed(ClosingStreamingResponse):
    """The engine's response as it is."""

    def __init__(self, response: httpx.Response, close: Callable[[], Awaitable[None]]) -> None:
        """``close`` ends the response, too."""
        super().__init__(raw_pieces(response), close, status_code=response.status_code)
        self.raw_headers = sent_back(response)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send all of it; where the engine breaks off, so does this."""
        try:
            await super().__call__(scope, receive, send)
        except httpx.HTTPError as error:
            # The head has been sent: a body without its end is the only way left to say it.
            _log.warning("the engine broke off an answer: %r", error)


async def relay(scope: Scope, receive: Receive, send: Send) -> None:
    """ASGI: answer a request by the engine."""
    request = Request(scope, receive)
    await (await relayed(request))(scope, receive, send)


async def relayed(request: Request) -> Relayed:
    """The engine's response to a request.

    Raises:
        ApiError: the request's body is not what the guard lets in, or there is no response.
    """
    async with AsyncExitStack() as ending:
        ending.enter_context(gateway_of(request).admission.admit())
        response = await cancel_on_disconnect(request, ask(request, await request.body()))
        ending.push_async_callback(response.aclose)
        return Relayed(response, ending.pop_all().aclose)


async def ask(request: Request, body: bytes, *, readable: bool = False) -> httpx.Response:
    """Send a request on with this body; the answer's head, to be closed by the caller.

    ``readable`` asks for a body that is not compressed.

    Raises:
        ApiError: 502 or 504, there is no answer.
    """
    headers = request.headers.raw
    if readable:
        headers = [(name, value) for name, value in headers if name != b"accept-encoding"]
        headers.append((b"accept-encoding", b"identity"))
    query = request.scope["query_string"]
    target = request.scope["raw_path"] + (b"?" + query if query else b"")
    return await gateway_of(request).upstream.send(request.method, target, headers, body)
