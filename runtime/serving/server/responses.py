"""``/v1/responses``: routes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, Response

from agentrt.errors import InvalidRequestError

from ...contexts.response_chains import ResponseChains, StoredResponse
from ...pool.responses.builder import BEGIN_ANEW
from ...pool.responses.items import ResponsesRequest, input_items
from ...request.field_names import sender_names
from ...request.validation import MAX_MESSAGES, plain_messages, unasked_output
from ..http.errors import ApiError
from ..http.request_state import app_of, header_priority
from ..http.strict_json import StrictJsonRoute, large_json_response
from . import background, compaction
from .answers import answer
from .background import background_of
from .paging import PageBody, PageQuery, page_of
from .response_writer import ResponseWriter
from .server_state import header_session, server_state_of
from .stored_items import look_up, previous_response

router = APIRouter(route_class=StrictJsonRoute)
router.include_router(background.router)
router.include_router(compaction.router)


class ItemList(PageBody[dict[str, Any]]):
    """Items of a conversation."""


@router.post("/v1/responses", summary="Generate a response")
async def responses(body: ResponsesRequest, request: Request) -> Response:
    """OpenAI's responses, whole or as typed server-sent events.

    A response is stored unless ``store`` is false, and another one continues it by ``previous_response_id``.
    One that fails, or whose client disconnects, is not stored. ``X-Session-ID`` names the conversation.
    With ``background`` it is queued, and the answer has what is known of it; it goes on without its client.
    """
    app, model = app_of(request), server_state_of(request).model(body.model)
    body.take_priority(header_priority(request))
    session = header_session(request)
    previous = await previous_response(request, body)
    writer = ResponseWriter(model.name, body, previous, app, session)
    options = body.options()
    options["app"] = app
    if previous is not None:
        with sender_names(body.field_name, writer.shorten):
            _check_continuation(previous, body.input_messages())
    if body.background:
        request_bytes = len(await request.body())
        return await background_of(request).respond(body, writer, app, session, request_bytes)
    return await answer(request, model, writer, [writer.prompt], options)


@router.get("/v1/responses/{response_id}", summary="Show a stored response")
async def get_response(
    response_id: str, request: Request, stream: bool = False, starting_after: int = -1
) -> Response:
    """Return a response as it was when it was complete, or as a background response is now.

    With ``stream`` those events of a background response are sent whose number is above ``starting_after``.
    """
    job = background_of(request).find(app_of(request), response_id)
    if job is not None and (job.events if stream else not job.status.ended):
        return await background_of(request).show(job, starting_after if stream else None)
    found = await look_up(request, response_id)
    if found is None and job is None:
        raise _not_found(response_id)
    if stream:
        raise ApiError(
            400,
            "stream: the events of this response are not kept: it was not created with background, or it has "
            "ended a while ago. Leave stream out.",
            param="stream",
        )
    if found is not None:
        return await large_json_response(lambda: found[1].body)
    assert job is not None
    return await background_of(request).show(job)


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

    409 while it is being continued: the answer comes first. One in the background is cancelled.
    """
    background_of(request).check_not_continued(app_of(request), response_id)
    removed = await background_of(request).remove(app_of(request), response_id)
    found = await look_up(request, response_id)
    if found is not None:
        removed |= await asyncio.to_thread(found[0].delete, app_of(request), response_id)
    if not removed:
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
            f"To go on, {BEGIN_ANEW}.",
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
