"""``/v1/contexts``: the contexts of an app over HTTP (LLMS, Table 1)."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel

from agentrt.errors import ContextNotFoundError, InvalidRequestError
from agentrt.priority import Priority

from ...contexts.context import Context
from ...pool.pooled_model import PooledModel, delete_contexts, find_context
from ...pool.responses.common_request import ModelRequest
from ..http.errors import ApiError
from ..http.request_state import app_of, header_priority
from ..http.strict_json import StrictJsonRoute
from .chat import ChatRequest, answer_chat
from .paging import PageBody, PageQuery, page_of
from .server_state import loaded, server_state_of

router = APIRouter(route_class=StrictJsonRoute)


class NewContext(ModelRequest):
    """What a context begins with."""

    system_prompt: str | None = None


class ContextBody(BaseModel):
    """A context. Times are Unix time in seconds."""

    id: str
    object: Literal["context"] = "context"
    model: str
    kind: Literal["context", "session", "responses"]
    """Made by the app, named by ``X-Session-ID``, or a chain of stored responses."""
    session: str | None
    """Name of a session, or the one that the first request of a chain has given it."""
    created_at: int
    last_used_at: int
    status: Literal["idle", "running"]
    turns: int
    tokens: int | None
    """Tokens of the text after the last turn; of a session, of its last request and the answer. Null for a
    session of which no request has ended since the server began."""


class ContextWithMessages(ContextBody):
    """A context and its text."""

    messages: list[dict[str, Any]]


class ContextList(PageBody[ContextBody]):
    """Contexts of an app."""


class DeletedContext(BaseModel):
    """A context that is no more."""

    id: str
    object: Literal["context"] = "context"
    deleted: Literal[True] = True


class DeletedContexts(BaseModel):
    """All contexts of the app, which are no more."""

    object: Literal["list"] = "list"
    deleted: Literal[True] = True


@router.post("/v1/contexts", summary="Make a context")
async def create_context(body: NewContext, request: Request) -> ContextBody:
    """Return a new context of the app, which stays until it is deleted."""
    state = server_state_of(request)
    model = state.model(body.model)
    async with loaded(request, model, Priority.REACTIVE) as runtime:
        context = await runtime.bind(app_of(request)).anew_context(body.system_prompt)
    return _body(model, context)


@router.get("/v1/contexts", summary="List the contexts")
async def list_contexts(request: Request, query: Annotated[PageQuery, Query()]) -> ContextList:
    """Return the app's contexts of all models, sessions and chains of responses among them.

    The one that was made last is the first, unless ``order`` is ``asc``: this order does not change while a
    client reads page by page, whatever is used meanwhile.
    """
    app, models = app_of(request), server_state_of(request).pool.models

    def listed() -> ContextList:
        found = [(model, context) for model in models for context in model.context_table.contexts(app)]
        found.sort(key=lambda each: (each[1].created, each[1].id))
        return ContextList(**page_of(found, lambda each: each[1].id, query, lambda each: _body(*each)))

    return await asyncio.to_thread(listed)  # there may be thousands


@router.get("/v1/contexts/{context_id}", summary="Show a context")
async def get_context(context_id: str, request: Request) -> ContextWithMessages:
    """Return a context and its messages; a session has none, since its requests have them."""
    model, context = await _find(request, context_id)
    messages = [dict(message) for message in context.messages]
    return ContextWithMessages(**_body(model, context).model_dump(), messages=messages)


@router.delete("/v1/contexts/{context_id}", summary="Delete a context")
async def delete_context(context_id: str, request: Request) -> DeletedContext:
    """Delete a context and its text. A call in progress ends with a 404, in its stream if it has begun."""
    model, context = await _find(request, context_id)
    await asyncio.to_thread(model.context_table.delete, app_of(request), context.id)
    return DeletedContext(id=context.id)


@router.delete("/v1/contexts", summary="Delete all contexts")
async def delete_all_contexts(request: Request) -> DeletedContexts:
    """Delete everything that the server keeps of the app, of all models, in memory and on disk.

    These are contexts, sessions, stored responses, and what was computed for requests without any of them.
    """
    if request.query_params:  # a filter that is ignored would delete too much
        name = next(iter(request.query_params))
        raise InvalidRequestError(
            name, "all contexts are deleted, and none is chosen. Leave it out, or delete one by its id."
        )
    models = server_state_of(request).pool.models
    await asyncio.to_thread(delete_contexts, models, app_of(request))
    return DeletedContexts()


@router.delete("/v1/contexts/{context_id:path}", include_in_schema=False)
async def delete_no_context(context_id: str) -> None:
    """Raise for an id that is no id, such as an empty one: redirected, it would delete all contexts."""
    raise ContextNotFoundError(context_id)


@router.post("/v1/contexts/{context_id}/chat/completions", summary="Continue a context")
async def call_context(context_id: str, body: ChatRequest, request: Request) -> Response:
    """OpenAI's chat completions with only the new messages: the context has those before.

    The answer is part of the context before its end is sent. One call of a context runs at a time: a second
    one is a 409. A call that fails, or whose client disconnects, leaves the context as it was.
    """
    model, context = await _find(request, context_id)
    if body.model is not None and server_state_of(request).model(body.model) is not model:
        reason = f"the context is one of {model.name!r}. Leave the model out, or name this one."
        raise InvalidRequestError("model", reason)
    if body.n not in (None, 1):
        raise ApiError(400, "n: a context goes on with one answer. Leave it out.", param="n")
    body.take_priority(header_priority(request))
    return await answer_chat(request, model, body, body.options(), context.id)


async def _find(request: Request, context_id: str) -> tuple[PooledModel, Context]:
    """Return a context of the app and its model.

    Raises:
        ContextNotFoundError: the app has no such context. Finding out takes the same steps whether it is
            another app's or unknown.
    """
    models = server_state_of(request).pool.models
    return await asyncio.to_thread(find_context, models, app_of(request), context_id)


def _body(model: PooledModel, context: Context) -> ContextBody:
    return ContextBody(
        id=context.id,
        model=model.name,
        kind=context.kind.value,
        session=context.session,
        created_at=int(context.created),
        last_used_at=int(context.last_used),
        status="running" if context.running else "idle",
        turns=len(context.turns),
        tokens=context.tokens,
    )
