"""``POST /v1/chat/completions`` in front of an engine without a tool cache."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, aclosing
from typing import Any

import httpx
from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic_core import to_json

from ...toolcache.outputs import ToolOutputs
from ..http.errors import ApiError
from ..http.open_responses import new_completion_id
from ..http.request_state import app_of, open_responses_of
from ..http.streaming import ClosingStreamingResponse, body_of, cancel_on_disconnect
from .headers import client_headers
from .relay import RelayedResponse, admitted, gateway_state_of, relay_request, send_to_engine
from .resumable_request import ResumableRequest
from .shared_outputs import SharedResponse
from .sse import turn_events
from .stream_joiner import StreamJoiner
from .upstream import error_event, is_plain_stream

_MAX_TURNS = 32
"""Turns in one response. A model that repeats its call without end is left to the client after them."""

_log = logging.getLogger(__name__)
router = APIRouter()


@router.post("/v1/chat/completions")
async def chat_completions(request: Request) -> Response:
    """Return the engine's answer; a stream continues after tool calls whose outputs were submitted."""
    resumable = ResumableRequest.parse(await body_of(request))
    if resumable is None:
        return await relay_request(request)
    async with AsyncExitStack() as stack:
        stack.enter_context(admitted(request))
        id, outputs = new_completion_id(), ToolOutputs(resumable.tools)
        shared = gateway_state_of(request).shared
        elsewhere = None
        if shared is not None:
            elsewhere = await stack.enter_async_context(shared.response(app_of(request), id, outputs))
        first_turn = send_to_engine(request, resumable.first_body(), readable=True)
        response = await cancel_on_disconnect(request, first_turn)
        stack.push_async_callback(response.aclose)
        if not is_plain_stream(response):
            return RelayedResponse(response, stack.pop_all().aclose)
        stack.enter_context(open_responses_of(request).register(id, app_of(request), outputs))
        if elsewhere is not None:
            await elsewhere.registered()
        joiner = StreamJoiner(id, resumable.model, outputs, hides_usage=resumable.adds_usage)
        answer = ClosingStreamingResponse(
            _joined_stream(request, resumable, joiner, response, elsewhere),
            stack.pop_all().aclose,
        )
        answer.raw_headers += client_headers(response, with_length=False)
        return answer


async def _joined_stream(
    request: Request,
    resumable: ResumableRequest,
    joiner: StreamJoiner,
    response: httpx.Response,
    elsewhere: SharedResponse | None,
) -> AsyncGenerator[bytes, None]:
    """Yield the events of the response's turns; ``response`` is the engine's first.

    ``elsewhere`` has the outputs that other replicas received.
    """
    history: list[dict[str, Any]] = []
    turns = 1
    try:
        yield _encode_event(joiner.opening_chunk())
        while True:
            async with aclosing(turn_events(response)) as events:
                async for raw, body in events:
                    if body is None or "choices" not in body:
                        yield raw  # a comment or an error
                        continue
                    for chunk in joiner.client_chunks(body):
                        yield _encode_event(chunk)
                    if elsewhere is not None and (calls := joiner.ending_calls):
                        await elsewhere.take(calls)
                    for chunk in joiner.end_turn():
                        yield _encode_event(chunk)
            await response.aclose()
            next_response = None
            if joiner.turn_answered and turns < _MAX_TURNS:
                history += joiner.turn_messages()
                next_body = resumable.next_body(history, joiner.completion_tokens)
                next_response = await _start_next_turn(request, next_body)
            if next_response is None:
                for chunk in joiner.held_chunks():
                    yield _encode_event(chunk)
                yield b"data: [DONE]\n\n"
                return
            response, turns = next_response, turns + 1
            for chunk in joiner.begin_next_turn():
                yield _encode_event(chunk)
    # The response's head has been sent, so an error can only be reported as an event.
    except httpx.HTTPError as error:
        yield error_event(response, error)
    finally:
        await response.aclose()


async def _start_next_turn(request: Request, body: bytes | None) -> httpx.Response | None:
    """Return the engine's stream for ``body``; None if there is none and the client must make the calls."""
    if body is None:
        return None
    try:
        response = await send_to_engine(request, body, readable=True)
    except ApiError as error:
        _log.warning("the engine did not continue after a tool's output: %s", error.detail)
        return None
    if is_plain_stream(response):
        return response
    _log.warning("the engine did not continue after a tool's output: status %d", response.status_code)
    await response.aclose()
    return None


def _encode_event(body: Mapping[str, Any]) -> bytes:
    return b"data: " + to_json(body) + b"\n\n"
