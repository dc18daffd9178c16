"""``/v1/responses``: routes, and answers in OpenAI's format, whole and as typed events."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, Response

from agentrt.calls import CallArgumentsDelta, CallFinished, CallStarted, TextDelta
from agentrt.errors import InvalidRequestError

from ...contexts.app_contexts import OpenTurn
from ...contexts.response_chains import ResponseChains, StoredResponse
from ...engine.output.generation import CallAnswered, Finished, Generation, GenerationEvent, LogprobsDelta
from ...engine.output.pending import LOGPROBS_AT_ONCE
from ...local.service import LocalRuntime
from ...request.field_names import sender_names
from ...request.options import GenerationOptions
from ...request.validation import MAX_MESSAGES, plain_messages, unasked_output
from ..http.errors import ApiError
from ..http.request_state import app_of
from ..http.strict_json import StrictJsonRoute, compact_json, give_way, json_pieces, large_json_response
from . import compaction
from .answers import AnswerWriter, answer
from .paging import PageBody, PageQuery, page_of
from .response_items import ResponsesRequest, input_items, output_messages, stored_messages, usage_of
from .server_state import header_session, server_state_of
from .stored_items import look_up, previous_response

_BEGIN_ANEW: Final = "send what still matters of the conversation as input, without previous_response_id"
"""How a conversation that has become too long goes on."""
_LAST_EVENTS: Final = ("response.completed", "response.incomplete", "response.failed")
_PADDED_TO: Final = 32
"""Bytes of which a padded delta and its padding have a multiple."""

router = APIRouter(route_class=StrictJsonRoute)
router.include_router(compaction.router)

Event = dict[str, Any]


class ItemList(PageBody[dict[str, Any]]):
    """Items of a conversation."""


@router.post("/v1/responses", summary="Generate a response")
async def responses(body: ResponsesRequest, request: Request) -> Response:
    """OpenAI's responses, whole or as typed server-sent events.

    A response is stored unless ``store`` is false, and another one continues it by ``previous_response_id``.
    One that fails, or whose client disconnects, is not stored. ``X-Session-ID`` names the conversation.
    """
    app, model = app_of(request), server_state_of(request).model(body.model)
    body.take_priority(request)
    session = header_session(request)
    previous = await previous_response(request, body)
    writer = _ResponseWriter(model.name, body, previous, app, session)
    options = body.options()
    options["app"] = app
    if previous is not None:
        with sender_names(body.field_name, writer.shorten):
            _check_continuation(previous, body.input_messages())
    return await answer(request, model, writer, [writer.prompt], options)


@router.get("/v1/responses/{response_id}", summary="Show a stored response")
async def get_response(response_id: str, request: Request, stream: Literal[False] | None = None) -> Response:
    """Return a response as it was when it was complete. It cannot be streamed again."""
    _, stored = await _find(request, response_id)
    return await large_json_response(lambda: stored.body)


@router.get("/v1/responses/{response_id}/input_items", summary="List the input of a stored response")
async def list_input_items(
    response_id: str, request: Request, query: Annotated[PageQuery, Query()]
) -> ItemList:
    """Return the items of the conversation that the response continues, and those of its own input.

    The newest is the first, unless ``order`` is ``asc``.
    """
    _, stored = await _find(request, response_id)

    def listed() -> ItemList:
        items = input_items(stored)
        return ItemList(**page_of(items, lambda item: str(item["id"]), query, lambda item: item))

    return await asyncio.to_thread(listed)


@router.delete("/v1/responses/{response_id}", summary="Delete a stored response")
async def delete_response(response_id: str, request: Request) -> Response:
    """Delete a response. Those that continue it keep the whole conversation.

    409 while it is being continued: the answer comes first.
    """
    chains, _ = await _find(request, response_id)
    if not await asyncio.to_thread(chains.delete, app_of(request), response_id):
        raise _not_found(response_id)
    return JSONResponse({"id": response_id, "object": "response", "deleted": True})


def _check_continuation(previous: StoredResponse, input: Sequence[Any]) -> None:
    """Check that a conversation has room for ``input``, and the call of each tool output.

    Raises:
        InvalidRequestError: it would have too many messages, one of ``input`` is wrong, or there is an output
            without a call.
    """
    messages = len(previous.messages) + len(input)
    if messages > MAX_MESSAGES:
        raise InvalidRequestError(
            "messages",
            f"the conversation would have {messages} messages, and at most {MAX_MESSAGES} are allowed. "
            f"To go on, {_BEGIN_ANEW}.",
        )
    checked = plain_messages(input) if input else ()
    if (index := unasked_output(previous.messages, checked)) is not None:
        id = checked[index].get("tool_call_id")
        raise InvalidRequestError(
            "input",
            f"no call of the conversation has the id {id!r}, which a function_call_output names. Send "
            "outputs of calls that the response before has made, with their call_id.",
        )


async def _find(request: Request, id: str) -> tuple[ResponseChains, StoredResponse]:
    found = await look_up(request, id)
    if found is None:
        raise _not_found(id)
    return found


def _not_found(id: str) -> ApiError:
    return ApiError(
        404,
        f"there is no stored response {id!r}. Use the id of one of your responses that was stored.",
        param="response_id",
        code="response_not_found",
    )


class _ResponseWriter(AnswerWriter):
    """Builds one response from a generation's events, writes each step as typed events, and stores it."""

    _completed: int | None = None
    """Unix time in seconds at which the answer was complete."""

    def __init__(
        self,
        model: str,
        request: ResponsesRequest,
        previous: StoredResponse | None,
        app: str,
        session: str | None,
    ) -> None:
        """Create an empty response to ``request`` of ``app``, which continues ``previous``.

        ``model`` is the model's name in this server. ``session`` names the conversation.
        """
        super().__init__(model, stream=bool(request.stream), id=f"resp_{secrets.token_hex(24)}")
        self.shorten = "Shorten the input or the instructions"
        if previous is not None:
            self.shorten += f", or {_BEGIN_ANEW}"
        self._request = request
        self._input = request.input_messages()
        self._previous = previous
        self._app = app
        self._session = session
        self._turn: OpenTurn | None = None
        self._created = int(time.time())
        self._items: list[dict[str, Any]] = []
        self._text: list[str] = []
        self._logprobs: list[dict[str, Any]] = []
        self._pending_logprobs: list[dict[str, Any]] = []
        self._next_number = 0
        self._generation: Generation | None = None

    @property
    def prompt(self) -> list[Any]:
        """The prompt: the instructions, the conversation that the response continues, and the input."""
        instructions = self._request.instructions
        system = [{"role": "system", "content": instructions}] if instructions else []
        return [*system, *(self._previous.messages if self._previous else ()), *self._input]

    def field_name(self, field: str, prompt: int) -> str:
        return self._request.field_name(field, len(self.prompt) - len(self._input))

    async def begin(self, runtime: LocalRuntime, stack: AsyncExitStack) -> GenerationOptions:
        await super().begin(runtime, stack)
        if not self._request.is_stored:
            return {"session": self._session}
        chains = ResponseChains(runtime.context_table)
        while self._turn is None:
            context = await asyncio.to_thread(chains.context_for, self._app, self._previous, self._session)
            # On the event loop, so that a cancelled request leaves no turn open.
            self._turn = chains.begin(self._app, context)
        stack.push_async_callback(asyncio.to_thread, chains.close, self._app, self._turn)
        return {"context_id": self._turn.context_id}

    def opening(self) -> Iterator[Event]:
        for kind in ("created", "in_progress"):
            yield self._event(f"response.{kind}", response=self._response())

    def chunks(self, index: int, event: GenerationEvent) -> Iterator[Event]:
        if isinstance(event, LogprobsDelta):
            text_of = self.runtime.token_text
            self._pending_logprobs += [each.in_openai_form(text_of) for each in give_way(event.tokens)]
            if len(self._pending_logprobs) >= LOGPROBS_AT_ONCE and self._open_item("message") is not None:
                yield from self._add_text("")
        elif isinstance(event, TextDelta):
            # A call that a stop text ends is repeated as text, but its first part was sent already as a call.
            if self._open_item("function_call") is None:
                yield from self._add_text(event.text)
        elif isinstance(event, CallStarted):
            if self.runtime.constrains_calls:
                yield from self._start_call(event.id, event.name)
        elif isinstance(event, CallArgumentsDelta):
            if self.runtime.constrains_calls:
                yield from self._add_arguments(event.text)
        elif isinstance(event, CallFinished):
            if self._open_item("function_call") is None:
                yield from self._start_call(event.call.id, event.call.name)
                yield from self._add_arguments(json.dumps(event.call.arguments, ensure_ascii=False))
            yield from self._end_item("completed")
        elif isinstance(event, CallAnswered):
            yield from self._end_item("completed")
            result = {"type": "function_call_output", "id": f"fco_{secrets.token_hex(12)}"}
            yield from self._start_item(result | {"call_id": event.call.id, "output": event.output})
            yield from self._end_item("completed")
        elif isinstance(event, Finished):
            self._generation = event.generation
            self._completed = int(time.time())
            cut = event.generation.finish_reason == "length"
            yield from self._end_item("incomplete" if cut else "completed")
            kind = "incomplete" if cut else "completed"
            yield self._event(f"response.{kind}", response=self._response())

    def finish(self, generation: Generation) -> None:
        """Store the response, if it is to be stored and was not cancelled with its context.

        Raises:
            ContextNotFoundError: its chain was deleted meanwhile.
            ContextStoreError: it cannot be stored.
        """
        if self._turn is None:
            return
        if generation.finish_reason == "cancelled":
            self._turn.check_context()
            return
        response = self._response()
        tokens = generation.usage.prompt_tokens + generation.usage.completion_tokens
        messages = [*self._input, *output_messages(response["output"])]
        self._turn.commit(stored_messages(messages), tokens, response)

    def failure(self, error: ApiError) -> Event:
        described = {"code": "server_error", "message": error.detail}
        return self._event(
            "response.failed", response=self._response() | {"status": "failed", "error": described}
        )

    def body(self, generations: Sequence[Generation]) -> dict[str, Any]:
        (generation,) = generations
        steps: list[GenerationEvent] = [LogprobsDelta(generation.logprobs)]
        if generation.text:
            steps.append(TextDelta(generation.text))
        for index, call in enumerate(generation.tool_calls):
            arguments = json.dumps(call.arguments, ensure_ascii=False)
            steps += [CallStarted(index, call.name, call.id), CallArgumentsDelta(index, arguments)]
            steps.append(CallFinished(index, call))
        for step in (*steps, Finished(generation)):
            for _ in self.chunks(0, step):
                pass
        return self._response()

    async def encode(self, chunk: Mapping[str, Any]) -> str:
        """Return an event as it is sent; one that may repeat all log probabilities is encoded in a thread."""
        kind = chunk["type"]
        if self._request.wants_padding and kind.endswith(".delta"):
            missing = -len(compact_json(chunk["delta"]).encode()) % _PADDED_TO
            chunk = {**chunk, "obfuscation": secrets.token_hex(_PADDED_TO)[:missing]}
        if self._request.wants_logprobs and not kind.endswith(".delta"):
            data = await asyncio.to_thread(lambda: "".join(give_way(json_pieces(chunk))))
        else:
            data = compact_json(chunk)
        end = "data: [DONE]\n\n" if kind in _LAST_EVENTS else ""
        return f"event: {kind}\ndata: {data}\n\n{end}"

    def _response(self) -> dict[str, Any]:
        request, generation = self._request, self._generation
        cut = generation is not None and generation.finish_reason == "length"
        status = "in_progress" if generation is None else "incomplete" if cut else "completed"
        return {
            "id": self.id,
            "object": "response",
            "created_at": self._created,
            "completed_at": self._completed if status == "completed" else None,
            "status": status,
            "background": False,
            "error": None,
            "frequency_penalty": request.frequency_penalty or 0.0,
            "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
            "instructions": request.instructions,
            "max_output_tokens": request.max_output_tokens,
            "max_tool_calls": None,
            "metadata": request.metadata or {},
            "model": self.model,
            "output": self._items if generation is not None else [],
            "parallel_tool_calls": request.parallel_tool_calls is not False,
            "presence_penalty": request.presence_penalty or 0.0,
            "previous_response_id": request.previous_response_id,
            "prompt_cache_key": request.prompt_cache_key,
            "reasoning": {"effort": None, "summary": None},
            "safety_identifier": request.safety_identifier,
            "service_tier": request.served_tier,
            "store": request.is_stored,
            "temperature": request.temperature or 0.0,
            "text": {"format": request.shown_format},
            "tool_choice": request.tool_choice or "auto",
            "tools": request.shown_tools,
            "top_logprobs": request.top_logprobs or 0,
            "top_p": request.top_p or 1.0,
            "truncation": "disabled",
            "usage": None if generation is None else usage_of(generation),
        }

    def _add_text(self, text: str) -> Iterator[Event]:
        if self._open_item("message") is None:
            message = {"type": "message", "id": f"msg_{secrets.token_hex(12)}", "role": "assistant"}
            yield from self._start_item(message | {"content": []})
            yield self._part_event("response.content_part.added", part=_part("", []))
        logprobs, self._pending_logprobs = self._pending_logprobs, []
        self._text.append(text)
        self._logprobs += logprobs
        yield self._part_event("response.output_text.delta", delta=text, logprobs=logprobs)

    def _start_call(self, id: str | None, name: str) -> Iterator[Event]:
        yield from self._end_item("completed")
        call = {"type": "function_call", "id": f"fc_{secrets.token_hex(12)}", "name": name, "arguments": ""}
        yield from self._start_item(call | {"call_id": id})

    def _add_arguments(self, text: str) -> Iterator[Event]:
        self._text.append(text)
        yield self._item_event("response.function_call_arguments.delta", delta=text)

    def _start_item(self, item: dict[str, Any]) -> Iterator[Event]:
        started = item | {"status": "in_progress"}
        self._items.append(started)
        index = len(self._items) - 1
        yield self._event("response.output_item.added", output_index=index, item=dict(started))

    def _end_item(self, status: str) -> Iterator[Event]:
        """Complete the item in progress, if there is one."""
        if not self._items or self._items[-1]["status"] != "in_progress":
            return
        item, text = self._items[-1], "".join(self._text)
        if item["type"] == "message":
            part = _part(text, self._logprobs)
            yield self._part_event("response.output_text.done", text=text, logprobs=self._logprobs)
            yield self._part_event("response.content_part.done", part=part)
            item["content"] = [part]
        elif item["type"] == "function_call":
            yield self._item_event("response.function_call_arguments.done", arguments=text)
            item["arguments"] = text
        item["status"] = status
        self._text, self._logprobs = [], []
        yield self._event("response.output_item.done", output_index=len(self._items) - 1, item=dict(item))

    def _open_item(self, kind: str) -> dict[str, Any] | None:
        """Return the item in progress if it is of this kind."""
        last = self._items[-1] if self._items else None
        return last if last and last["type"] == kind and last["status"] == "in_progress" else None

    def _part_event(self, kind: str, **fields: Any) -> Event:
        return self._item_event(kind, content_index=0, **fields)

    def _item_event(self, kind: str, **fields: Any) -> Event:
        index = len(self._items) - 1
        return self._event(kind, item_id=self._items[index]["id"], output_index=index, **fields)

    def _event(self, kind: str, **fields: Any) -> Event:
        event = {"type": kind, "sequence_number": self._next_number, **fields}
        self._next_number += 1
        return event


def _part(text: str, logprobs: list[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": logprobs}
