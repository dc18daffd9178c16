"""``/v1/responses``."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, Response

from agentrt.errors import AgentRTError, InvalidRequestError

from ...contexts.open_turn import OpenTurn
from ...contexts.response_chains import ResponseChains, StoredResponse
from ...engine.output.generation import Finished, Generation, LogprobsDelta
from ...engine.output.generation_span import answer_as
from ...engine.output.stream import GenerationStream
from ...pool.stored_contexts import find_response
from ...request.field_names import in_sender_names, sender_names
from ...request.validation import MAX_MESSAGES, plain_messages, unasked_output
from ..http.disconnect import cancel_on_disconnect
from ..http.errors import ApiError, to_api_error
from ..http.large_json import give_way, json_pieces, large_json_response
from ..http.priority_header import header_priority, priority_headers
from ..http.request_state import app_of, open_responses_of
from ..http.streaming import EventStreamResponse
from ..http.strict_json import StrictJsonRoute, compact_json
from .answer_bound import bound_answers
from .input_items import Item, input_items
from .paging import PageBody, PageQuery, page_of
from .responses_answer import Event, ResponseWriter, response_body
from .responses_field_names import response_field_name
from .responses_request import ResponsesRequest, output_messages
from .server_state import ServerState, server_state_of
from .session_header import header_session

router = APIRouter(route_class=StrictJsonRoute)

_BEGIN_ANEW: Final = "send what still matters of the conversation as input, without previous_response_id"


class ItemList(PageBody[Item]):
    """Items of a conversation."""


@router.post("/v1/responses", summary="Generate a response")
async def responses(body: ResponsesRequest, request: Request) -> Response:
    """OpenAI's responses, whole or as typed server-sent events.

    A response is stored unless ``store`` is false, and another one continues it by ``previous_response_id``.
    One that fails, or whose client disconnects, is not stored. ``X-Session-ID`` names the conversation.
    """
    state, app = server_state_of(request), app_of(request)
    model = state.model(body.model)
    body.take_priority(header_priority(request))
    headers = priority_headers(body.runtime_priority)
    session = header_session(request)
    previous = await _previous(request, body.previous_response_id)
    added, options = body.input_messages(), body.options()
    messages = body.messages(() if previous is None else previous.messages, added)
    field_name = functools.partial(response_field_name, body, len(messages) - len(added))
    shorten = "Shorten the input or the instructions"
    if previous is not None:
        shorten += f", or {_BEGIN_ANEW}"
        with sender_names(functools.partial(response_field_name, body, 0)):
            _check_continuation(previous, added)
    options["app"] = app
    async with AsyncExitStack() as stack:
        stack.enter_context(sender_names(field_name, shorten))
        bound_answers(options, state.config.default_max_tokens)
        stack.enter_context(state.admission.admit(request, body.runtime_priority))
        stack.enter_context(state.pool.hold(model))
        runtime = await state.load(model, request)
        turn = None
        if body.is_stored:
            chains = ResponseChains(runtime.context_table)
            turn = await _begin_turn(chains, app, previous, session)
            stack.push_async_callback(asyncio.to_thread, chains.close, app, turn)
            options["context_id"] = turn.context_id
        else:
            options["session"] = session
        answer = _Answer(ResponseWriter(runtime, model.name, body), added, turn, field_name)
        answer_as(answer.writer.id)
        if not body.stream:
            generation = await cancel_on_disconnect(request, runtime.agenerate(messages, **options))
            state.metrics.record(model.name, generation)
            response = await asyncio.to_thread(response_body, answer.writer, generation)
            await answer.store(generation)
            return await large_json_response(lambda: response, headers)
        stream = await cancel_on_disconnect(request, runtime.start(messages, **options))
        stack.callback(stream.cancel)
        outputs = stream.tool_outputs
        stack.enter_context(open_responses_of(request).register(answer.writer.id, app, outputs))
        return EventStreamResponse(_events(state, answer, stream), stack.pop_all().aclose, headers)


@router.get("/v1/responses/{response_id}", summary="Show a stored response")
async def get_response(response_id: str, request: Request, stream: Literal[False] | None = None) -> Response:
    """Return a response as it was when it was complete. It cannot be streamed again."""
    _, stored = await _find(request, response_id)
    return await large_json_response(lambda: stored.body)


@router.get(
    "/v1/responses/{response_id}/input_items",
    summary="List the input of a stored response",
    response_model=ItemList,
)
async def list_input_items(
    response_id: str, request: Request, query: Annotated[PageQuery, Query()]
) -> Response:
    """Return the items of the conversation that the response continues, and those of its own input.

    The newest is the first, unless ``order`` is ``asc``.
    """
    _, stored = await _find(request, response_id)

    def listed() -> Response:
        page = page_of(input_items(stored), lambda item: str(item["id"]), query)
        return JSONResponse(ItemList(**page.fields(page.items)).model_dump())

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


@dataclass(frozen=True)
class _Answer:
    """A response in progress, and where it is stored."""

    writer: ResponseWriter
    added: Sequence[Any]
    """The messages of its input."""
    turn: OpenTurn | None
    """None if it is not to be stored."""
    field_name: Callable[[str], str]
    """Returns the request's name for a field that an error of the runtime names."""

    async def store(self, generation: Generation) -> None:
        """Store the response, which is complete.

        Raises:
            ContextNotFoundError: its chain was deleted meanwhile.
            ContextStoreError: it cannot be stored.
        """
        if self.turn is None:
            return
        if generation.finish_reason == "cancelled":
            self.turn.check_context()
            return
        response = self.writer.response()
        tokens = generation.usage.prompt_tokens + generation.usage.completion_tokens
        messages = [*self.added, *output_messages(response["output"])]
        await asyncio.to_thread(self.turn.commit, plain_messages(messages), tokens, response)


async def _events(state: ServerState, answer: _Answer, stream: GenerationStream) -> AsyncGenerator[str, None]:
    writer = answer.writer
    try:
        for event in writer.opening_events():
            yield _encode_event(event)
        async with aclosing(stream.events()) as generated:
            async for step in generated:
                events = list(writer.events(step))
                if isinstance(step, Finished):
                    state.metrics.record(writer.model, step.generation)
                    await answer.store(step.generation)  # before the client reads that it is complete
                for event in events:
                    if writer.has_logprobs and not event["type"].endswith(".delta"):  # it may repeat them all
                        yield await asyncio.to_thread(_encode_large_event, event)
                    else:
                        yield _encode_event(event)
                if isinstance(step, LogprobsDelta):
                    await asyncio.sleep(0)  # many may have come while the client did not read
    except Exception as error:
        # The response's head has been sent, so the error can only be reported as an event.
        named = in_sender_names(error, answer.field_name)
        yield _encode_event(writer.failure(to_api_error(named).body()["error"]))
        if not isinstance(error, AgentRTError):
            raise  # unexpected: to be logged


async def _begin_turn(
    chains: ResponseChains, app: str, previous: StoredResponse | None, session: str | None
) -> OpenTurn:
    while True:
        context = await asyncio.to_thread(chains.context_for, app, previous, session)
        # On the event loop, so that a cancelled request leaves no turn open.
        if (turn := chains.begin(app, context)) is not None:
            return turn


async def _previous(request: Request, id: str | None) -> StoredResponse | None:
    """Return the response that a request continues.

    Raises:
        ApiError: 400 as from OpenAI, the app has no such response.
    """
    if id is None:
        return None
    found = await _look_up(request, id)
    if found is None:
        raise ApiError(
            400,
            f"previous_response_id: there is no stored response {id!r}. Send the whole conversation.",
            param="previous_response_id",
            code="previous_response_not_found",
        )
    return found[1]


def _check_continuation(previous: StoredResponse, added: Sequence[Any]) -> None:
    """Check that a conversation has room for ``added``, and the call of each tool output.

    Raises:
        InvalidRequestError: it would have too many messages, or one of ``added`` is wrong.
        ApiError: 400, as from OpenAI, there is an output without a call.
    """
    messages = len(previous.messages) + len(added)
    if messages > MAX_MESSAGES:
        raise InvalidRequestError(
            "messages",
            f"the conversation would have {messages} messages, and at most {MAX_MESSAGES} are allowed. "
            f"To go on, {_BEGIN_ANEW}.",
        )
    checked = plain_messages(added) if added else ()
    if (index := unasked_output(previous.messages, checked)) is not None:
        id = checked[index].get("tool_call_id")
        raise ApiError(
            400,
            f"input: no call of the conversation has the id {id!r}, which a function_call_output names. Send "
            "outputs of calls that the response before has made, with their call_id.",
            param="input",
            code="invalid_value",
        )


async def _find(request: Request, id: str) -> tuple[ResponseChains, StoredResponse]:
    found = await _look_up(request, id)
    if found is None:
        raise _not_found(id)
    return found


async def _look_up(request: Request, id: str) -> tuple[ResponseChains, StoredResponse] | None:
    models = server_state_of(request).pool.models
    return await asyncio.to_thread(find_response, models, app_of(request), id)


def _not_found(id: str) -> ApiError:
    return ApiError(
        404,
        f"there is no stored response {id!r}. Use the id of one of your responses that was stored.",
        param="response_id",
        code="response_not_found",
    )


def _encode_event(event: Event) -> str:
    return f"event: {event['type']}\ndata: {compact_json(event)}\n\n"


def _encode_large_event(event: Event) -> str:
    return f"event: {event['type']}\ndata: {''.join(give_way(json_pieces(event)))}\n\n"
