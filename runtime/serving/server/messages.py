"""``/v1/messages``: routes, and answers in Anthropic's form, whole and as typed events."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel
from starlette.types import Message, Receive, Scope, Send

from agentrt.calls import CallArgumentsDelta, CallFinished, CallStarted, TextDelta

from ...engine.output.generation import CallAnswered, Finished, Generation, GenerationEvent, Usage
from ...request.field_names import sender_names
from ..http.errors import MESSAGES_ROUTES, ApiError
from ..http.request_state import app_of, header_priority, threads_of
from ..http.streaming import cancel_on_disconnect
from ..http.strict_json import StrictJsonRoute, compact_json
from .answers import AnswerWriter, answer
from .message_blocks import ChatMessages, CountRequest, MessagesRequest
from .server_state import header_session, loaded, server_state_of

_ROUTE, _COUNT_ROUTE = MESSAGES_ROUTES

router = APIRouter(route_class=StrictJsonRoute)

Event = dict[str, Any]

_PING: Final[Event] = {"type": "ping"}
_PING_S: Final = 10.0


class _ThreadsNotServed(ApiError):
    """No conversation is held here: Anthropic's client then sends the whole of it with each request."""

    def __init__(self) -> None:
        super().__init__(
            400, "no message threads are held here. Leave thread out, and send all messages.", param="thread"
        )

    def body(self, path: str = "") -> dict[str, Any]:
        body = super().body(path)
        body["error"]["details"] = {"error_code": "thread_unsupported_request", "unsupported": ["thread"]}
        return body


class CountBody(BaseModel):
    """The tokens of a prompt."""

    input_tokens: int


@router.post(_ROUTE, summary="Generate an answer, in Anthropic's form")
async def messages(body: MessagesRequest, request: Request) -> Response:
    """Anthropic's messages, whole or as typed server-sent events.

    ``X-Session-ID`` names the conversation, which is then listed as a context.
    """
    if body.thread is not None:
        raise _ThreadsNotServed
    model = server_state_of(request).model(body.model)
    body.take_priority(header_priority(request))
    options = body.options()
    options |= {"app": app_of(request), "session": header_session(request)}
    prompt = ChatMessages(body)
    writer = _MessageWriter(model.name, prompt, stream=bool(body.stream))
    response = await answer(request, model, writer, [prompt.messages], options)
    return _PingedResponse(response) if body.stream else response


@router.post(_COUNT_ROUTE, summary="Count the tokens of a prompt, in Anthropic's form")
async def count_tokens(body: CountRequest, request: Request) -> CountBody:
    """Return the tokens that an answer to the same fields would read, cached ones included.

    A prompt that is too long for the model is counted as well.
    """
    app, model = app_of(request), server_state_of(request).model(body.model)
    body.take_priority(header_priority(request))
    prompt, tools = ChatMessages(body), body.shown_tools()
    async with loaded(request, model, body.runtime_priority) as runtime:
        with sender_names(prompt.field_name):
            work = threads_of(request).run(app, lambda _: runtime.count_prompt_tokens(prompt.messages, tools))
            return CountBody(input_tokens=await cancel_on_disconnect(request, work))


class _PingedResponse(Response):
    """A stream of events with a ping every ten seconds: clients and proxies give up on one that is silent."""

    def __init__(self, stream: Response) -> None:
        """Each part of the body of ``stream`` is whole events."""
        super().__init__()
        self._stream = stream

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream, and pings from its head to its end."""
        started, sending = asyncio.Event(), asyncio.Lock()

        async def ping() -> None:
            await started.wait()
            while True:
                await asyncio.sleep(_PING_S)
                async with sending:
                    body = _encoded(_PING).encode()
                    await send({"type": "http.response.body", "body": body, "more_body": True})

        async def send_alone(message: Message) -> None:
            async with sending:
                if started.is_set() and not message.get("more_body"):
                    pinging.cancel()
                await send(message)
            started.set()

        pinging = asyncio.create_task(ping())
        try:
            await self._stream(scope, receive, send_alone)
        finally:
            pinging.cancel()
            await asyncio.gather(pinging, return_exceptions=True)


class _MessageWriter(AnswerWriter):
    """Writes one message: whole, or each of its blocks as events from its start to its stop.

    Where calls are constrained by a grammar, every call that begins is valid, and its parts are sent as they
    are generated. Otherwise a call is sent when it is complete.
    """

    def __init__(self, model: str, prompt: ChatMessages, *, stream: bool) -> None:
        """``model`` is the model's name in this server, ``prompt`` the messages of the request."""
        super().__init__(model, stream=stream, id=f"msg_{secrets.token_hex(24)}")
        self._prompt = prompt
        self._blocks = 0
        self._open = ""
        """The type of the block in progress; empty if there is none."""

    def field_name(self, field: str, prompt: int) -> str:
        return self._prompt.field_name(field)

    def opening(self) -> Iterator[Event]:
        """Yield the start of the message; how much of its prompt is cached shows at its end only."""
        usage = _usage(Usage(self.prompt_tokens, 0))
        started = {"stop_reason": None, "stop_sequence": None, "usage": usage}
        yield {"type": "message_start", "message": self._message([], started)}
        yield _PING

    def chunks(self, index: int, event: GenerationEvent) -> Iterator[Event]:
        if isinstance(event, TextDelta):
            # A call that a stop text ends is repeated as text, but its first part was sent already as a call.
            if self._open != "tool_use":
                if not self._open:
                    yield from self._start_block({"type": "text", "text": ""})
                yield self._delta({"type": "text_delta", "text": event.text})
        elif isinstance(event, CallStarted):
            if self.runtime.constrains_calls:
                yield from self._start_block(_call_block(event.id, event.name, {}))
        elif isinstance(event, CallArgumentsDelta):
            if self.runtime.constrains_calls:
                yield self._delta({"type": "input_json_delta", "partial_json": event.text})
        elif isinstance(event, CallFinished):
            if self._open != "tool_use":
                yield from self._start_block(_call_block(event.call.id, event.call.name, {}))
                arguments = json.dumps(event.call.arguments, ensure_ascii=False)
                yield self._delta({"type": "input_json_delta", "partial_json": arguments})
            yield from self._stop_block()
        elif isinstance(event, CallAnswered):
            # An extension: Anthropic has no block for a call of the client's tools that the server answered.
            yield from self._start_block(
                {"type": "tool_result", "tool_use_id": event.call.id, "content": event.output}
            )
            yield from self._stop_block()
        elif isinstance(event, Finished):
            yield from self._stop_block()
            yield {
                "type": "message_delta",
                "delta": _stop_of(event.generation),
                "usage": _usage(event.generation.usage),
            }
            yield {"type": "message_stop"}

    def failure(self, error: ApiError) -> Mapping[str, Any]:
        return error.body(_ROUTE)

    def body(self, generations: Sequence[Generation]) -> dict[str, Any]:
        (generation,) = generations
        content: list[Any] = [{"type": "text", "text": generation.text}] if generation.text else []
        content += [_call_block(call.id, call.name, call.arguments) for call in generation.tool_calls]
        return self._message(content, {**_stop_of(generation), "usage": _usage(generation.usage)})

    async def encode(self, chunk: Mapping[str, Any]) -> str:
        return _encoded(chunk)

    def _message(self, content: list[Any], fields: Mapping[str, Any]) -> dict[str, Any]:
        head = {"id": self.id, "type": "message", "role": "assistant", "model": self.model}
        return {**head, "content": content, **fields}

    def _start_block(self, block: Mapping[str, Any]) -> Iterator[Event]:
        yield from self._stop_block()
        self._open = block["type"]
        yield {"type": "content_block_start", "index": self._blocks, "content_block": block}

    def _delta(self, delta: Mapping[str, Any]) -> Event:
        return {"type": "content_block_delta", "index": self._blocks, "delta": delta}

    def _stop_block(self) -> Iterator[Event]:
        """End the block in progress, if there is one."""
        if self._open:
            yield {"type": "content_block_stop", "index": self._blocks}
            self._open = ""
            self._blocks += 1


def _encoded(event: Mapping[str, Any]) -> str:
    return f"event: {event['type']}\ndata: {compact_json(event)}\n\n"


def _call_block(id: str | None, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": name, "input": arguments}


def _stop_of(generation: Generation) -> dict[str, Any]:
    """Return Anthropic's reason for the end of an answer, and the stop sequence if that was it."""
    reasons = {"tool_calls": "tool_use", "length": "max_tokens"}
    by_text = generation.finish_reason == "stop" and generation.stopped_by is not None
    return {
        "stop_reason": "stop_sequence" if by_text else reasons.get(generation.finish_reason, "end_turn"),
        "stop_sequence": generation.stopped_by if by_text else None,
    }


def _usage(usage: Usage) -> dict[str, int]:
    return {
        "input_tokens": usage.prompt_tokens - usage.cached_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached_tokens,
        "output_tokens": usage.completion_tokens,
    }
