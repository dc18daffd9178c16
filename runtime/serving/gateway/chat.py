"""``POST /v1/chat/completions`` in front of an engine without a tool cache."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass
from typing import Any, Self

import httpx
from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic_core import to_json

from ...toolcache.outputs import ToolOutputs
from ..http.errors import ApiError
from ..http.open_responses import new_completion_id
from ..http.request_state import app_of, open_responses_of
from ..http.streaming import ClosingStreamingResponse, body_of, cancel_on_disconnect
from ..http.strict_json import parse_body
from .relay import RelayedResponse, admitted, gateway_state_of, relay_request, send_to_engine
from .shared_outputs import SharedResponse
from .sse import turn_events
from .stream_joiner import StreamJoiner
from .upstream import client_headers, error_event, is_plain_stream

_MAX_TURNS = 32
"""Turns in one response. A model that repeats its call without end is left to the client after them."""

_log = logging.getLogger(__name__)
router = APIRouter()


_LIMITS = ("max_tokens", "max_completion_tokens")
_OF_ONE_PROMPT = ("continue_final_message", "ec_transfer_params", "kv_transfer_params", "mm_payload")
"""Fields of vLLM's that are about the prompt of one request, and wrong for that of the next turn."""


@dataclass(frozen=True)
class ResumableRequest:
    """A streamed chat completion with tools, one choice, and the choice of tools left to the model."""

    fields: Mapping[str, Any]
    body: bytes
    """The client's body, unchanged."""

    @classmethod
    def parse(cls, body: bytes) -> Self | None:
        """Return the request in ``body``; None if it is of another kind or invalid: the engine answers it."""
        try:
            fields = parse_body(body)
        except ApiError:
            return None
        if (
            isinstance(fields, dict)
            and fields.get("stream") is True
            and fields.get("n") in (None, 1)
            and fields.get("tool_choice") in (None, "auto")
            and isinstance(fields.get("messages"), list)
            and isinstance(fields.get("tools"), list)
            and fields["tools"]
            and fields.get("add_generation_prompt") in (None, True)
            and not any(fields.get(name) for name in _OF_ONE_PROMPT)
        ):
            return cls(fields, body)
        return None

    @property
    def model(self) -> Any:
        """The requested model."""
        return self.fields.get("model")

    @property
    def tools(self) -> list[dict[str, Any]]:
        """The valid function definitions among the tools."""
        return [
            tool
            for tool in self.fields["tools"]
            if isinstance(tool, dict)
            and isinstance(function := tool.get("function"), dict)
            and isinstance(function.get("name"), str)
            and isinstance(parameters := function.get("parameters") or {}, dict)
            and isinstance(parameters.get("properties") or {}, dict)
        ]

    @property
    def adds_usage(self) -> bool:
        """Whether the gateway requests usage that the client did not: a token limit holds for all turns."""
        requested = self._stream_options().get("include_usage") is True
        return not requested and any(self._limit(name) is not None for name in _LIMITS)

    def first_body(self) -> bytes:
        """Return the body of the first turn: the client's, with usage requested where it must be counted."""
        return self._encode({}) if self.adds_usage else self.body

    def next_body(self, history: Sequence[Mapping[str, Any]], completion_tokens: int | None) -> bytes | None:
        """Return the body of the next turn; None if the token limit leaves no token for it.

        Args:
            history: The messages of the turns so far: calls and their outputs.
            completion_tokens: Tokens of the answer so far; None if the engine did not report them.
        """
        changes: dict[str, Any] = {"messages": [*self.fields["messages"], *history]}
        for name in _LIMITS:
            limit = self._limit(name)
            if limit is None:
                continue
            if completion_tokens is None or limit <= completion_tokens:
                return None
            changes[name] = limit - completion_tokens
        return self._encode(changes)

    def _stream_options(self) -> dict[str, Any]:
        options = self.fields.get("stream_options")
        return options if isinstance(options, dict) else {}

    def _limit(self, name: str) -> int | None:
        limit = self.fields.get(name)
        return limit if isinstance(limit, int) else None

    def _encode(self, changes: Mapping[str, Any]) -> bytes:
        fields = {**self.fields, **changes}
        if self.adds_usage:
            fields["stream_options"] = {**self._stream_options(), "include_usage": True}
        return to_json(fields)


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
                for chunk in joiner.held:
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
