"""Requests and responses that pass the gateway unchanged."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractContextManager, AsyncExitStack
from dataclasses import dataclass
from typing import cast

import httpx
from fastapi import Request
from starlette.types import Receive, Scope, Send

from ..http.admission import admit
from ..http.connection import Connection
from ..http.request_state import app_of, hinted_priority
from ..http.streaming import ClosingStreamingResponse, body_of, cancel_on_disconnect
from .separation import Separation
from .shared_outputs import SharedOutputs
from .sse import whole_turn
from .upstream import Upstream, client_headers, error_event, is_plain_stream, raw_body

_CHAT = b"/chat/completions"

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class GatewayState:
    """What all requests to one gateway share: the engine, the replicas, and what keeps apps apart."""

    upstream: Upstream
    shared: SharedOutputs | None
    """None if there are no replicas."""
    separation: Separation | None
    """None where there is one app, or each client has its own key."""


def gateway_state_of(request: Request) -> GatewayState:
    """Return the state of the gateway that received ``request``."""
    return cast(GatewayState, request.app.state.gateway)


def admitted(request: Request) -> AbstractContextManager[None]:
    """Count ``request`` as in progress, by its header: engines differ in the fields that name a priority."""
    return admit(request, hinted_priority(request.headers))


class RelayedResponse(ClosingStreamingResponse):
    """The engine's response, unchanged."""

    def __init__(
        self,
        response: httpx.Response,
        close: Callable[[], Awaitable[None]],
        body: AsyncGenerator[bytes, None] | None = None,
    ) -> None:
        """``close`` also closes ``response``; ``body`` yields what :func:`raw_body` of it does."""
        super().__init__(body or raw_body(response), close, status_code=response.status_code)
        self.raw_headers = client_headers(response)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response; if the engine breaks off, leave it incomplete."""
        try:
            await super().__call__(scope, receive, send)
        except httpx.HTTPError as error:
            _log.warning("the engine broke off an answer: %r", error)
            # The head has been sent, so the failure can only be shown by an incomplete body.
            connection: Connection = scope["state"]["connection"]
            connection.break_off()


async def relay(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a request with the engine's response, as an ASGI application."""
    request = Request(scope, receive)
    await (await relay_request(request))(scope, receive, send)


async def relay_request(request: Request) -> RelayedResponse:
    """Return the engine's response to ``request``, or raise what admits, reads or sends it."""
    state, path = gateway_state_of(request), request.scope["raw_path"]
    separation = state.separation
    notes_id = separation is not None and separation.makes(request.method, path)
    async with AsyncExitStack() as stack:
        stack.enter_context(admitted(request))
        sent = send_to_engine(request, await body_of(request), readable=notes_id)
        response = await cancel_on_disconnect(request, sent)
        stack.push_async_callback(response.aclose)
        body = raw_body(response)
        if path.endswith(_CHAT) and is_plain_stream(response):
            response.headers.pop("content-length", None)  # an error may end it
            body = _whole_chat(response)
        if separation is not None and notes_id:
            body = separation.noting(app_of(request), path, response, body)
        return RelayedResponse(response, stack.pop_all().aclose, body)


async def _whole_chat(response: httpx.Response) -> AsyncGenerator[bytes, None]:
    """Yield a stream of chunks, and an error as its last event if it ends before the answer is complete."""
    try:
        async for piece in whole_turn(raw_body(response)):
            yield piece
    except httpx.HTTPError as error:
        yield error_event(response, error)


async def send_to_engine(request: Request, body: bytes, *, readable: bool = False) -> httpx.Response:
    """Send ``request`` with this body to the engine. Return the response's head; the caller closes it.

    ``readable`` asks for a body without compression. Errors are those of :meth:`Separation.permit` and
    :meth:`Upstream.send`.
    """
    state, path = gateway_state_of(request), request.scope["raw_path"]
    if state.separation is not None:
        body = await state.separation.permit(app_of(request), request.method, path, body)
    headers = request.headers.raw
    if readable:
        headers = [(name, value) for name, value in headers if name != b"accept-encoding"]
        headers.append((b"accept-encoding", b"identity"))
    query = request.scope["query_string"]
    target = path + (b"?" + query if query else b"")
    return await state.upstream.send(request.method, target, headers, body)
