"""``POST /v1/chat/completions`` before an engine without a tool cache."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import AsyncExitStack, aclosing
from typing import Any

import httpx
from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic_core import from_json

from ..http.disconnect import cancel_on_disconnect
from ..http.errors import ApiError
from ..http.ids import new_completion_id
from ..http.request_state import app_of, open_responses_of
from ..http.streaming import ClosingStreamingResponse
from ..http.strict_json import compact_json
from ..toolcache.outputs import ToolOutputs
from .chat_request import Asked
from .events import EventTooLargeError, data_of, whole_events
from .relay import Relayed, ask, gateway_of, relayed
from .stream_joiner import Splice
from .upstream import sent_back, upstream_error

_MOST_TURNS = 32
"""Of one response: a model that makes the same call for ever is the client's to stop."""

_log = logging.getLogger(__name__)
router = APIRouter()


@router.post("/v1/chat/completions")
async def chat_completions(request: Request) -> Response:
    """The engine's answer; where it is streamed, it goes on behind calls whose outputs were submitted."""
    asked = Asked.read(await request.body())
    if asked is None:
        return await relayed(request)
    async with AsyncExitStack() as ending:
        ending.enter_context(gateway_of(request).admission.admit())
        response = await cancel_on_disconnect(request, ask(request, asked.first(), readable=True))
        ending.push_async_callback(response.aclose)
        if not _is_stream(response):
            return Relayed(response, ending.pop_all().aclose)
        id, outputs = new_completion_id(), ToolOutputs(asked.tools)
        ending.enter_context(open_responses_of(request).register(id, app_of(request), outputs))
        splice = Splice(id, asked.fields.get("model"), outputs, hides_usage=asked.counts_usage)
        events = _events(request, asked, splice, response)
        answer = ClosingStreamingResponse(events, ending.pop_all().aclose, media_type="text/event-stream")
        answer.raw_headers += sent_back(response, with_body=False)
        return answer


async def _events(
    request: Request, asked: Asked, splice: Splice, response: httpx.Response
) -> AsyncGenerator[bytes, None]:
    history: list[dict[str, Any]] = []
    turns = 1
    try:
        yield _event(splice.opening())
        while True:
            ended = False
            async with aclosing(whole_events(response.aiter_bytes())) as events:
                async for event in events:
                    data = data_of(event)
                    if ended := data == b"[DONE]":
                        break
                    for ours in _of_event(splice, event, data):
                        yield ours
            await response.aclose()
            following = None
            if splice.answered and turns < _MOST_TURNS:
                history += splice.turn()
                following = await _go_on(request, asked.behind(history, splice.completion_tokens))
            if following is None:
                for chunk in splice.give_up():
                    yield _event(chunk)
                if ended:
                    yield b"data: [DONE]\n\n"
                return
            response, turns = following, turns + 1
            for chunk in splice.next_turn():
                yield _event(chunk)
    # The head has been sent: an event is the only way left to say it.
    except httpx.HTTPError as error:
        yield _event(upstream_error(error).body())
    except EventTooLargeError as error:
        yield _event(upstream_error(httpx.RemoteProtocolError(str(error))).body())
    finally:
        await response.aclose()


async def _go_on(request: Request, body: bytes | None) -> httpx.Response | None:
    """The engine's next turn; None if there is none, and the client has to go on itself."""
    if body is None:
        return None
    try:
        response = await ask(request, body, readable=True)
    except ApiError as error:
        _log.warning("the engine did not go on behind a tool's output: %s", error.detail)
        return None
    if _is_stream(response):
        return response
    _log.warning("the engine did not go on behind a tool's output: status %d", response.status_code)
    await response.aclose()
    return None


def _of_event(splice: Splice, event: bytes, data: bytes) -> Iterator[bytes]:
    try:
        chunk = from_json(data) if data else None
    except ValueError:
        chunk = None
    if isinstance(chunk, dict) and "choices" in chunk:
        for ours in splice.chunks(chunk):
            yield _event(ours)
    else:
        yield event  # a comment, or an error


def _event(body: Mapping[str, Any]) -> bytes:
    return f"data: {compact_json(body)}\n\n".encode()


def _is_stream(response: httpx.Response) -> bool:
    kind: str = response.headers.get("content-type", "")
    return response.status_code == 200 and kind.startswith("text/event-stream")
