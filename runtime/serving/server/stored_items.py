"""What a request of ``/v1/responses`` names of what its app has stored: the response before, and items."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Sequence

from fastapi import Request

from agentrt.errors import InvalidRequestError
from agentrt.finite import shown

from ...contexts.context import ContextKind
from ...contexts.response_chains import ResponseChains, StoredResponse
from ...pool.pooled_model import PooledModel, find_response
from ...pool.responses.common_request import MAX_ITEMS
from ...pool.responses.items import Conversation, Item, input_items
from ..http.errors import ApiError
from ..http.request_state import app_of
from .background import background_of
from .server_state import server_state_of


async def look_up(request: Request, id: str) -> tuple[ResponseChains, StoredResponse] | None:
    """Return a response of the app and those of its model; None if it has none."""
    models = server_state_of(request).pool.models
    return await asyncio.to_thread(find_response, models, app_of(request), id)


async def previous_response(request: Request, body: Conversation) -> StoredResponse | None:
    """Return the response that a request continues, and put items in the place of references to them.

    Raises:
        ApiError: 400 as from OpenAI, the app has no such response; 409, it is not complete.
        InvalidRequestError: the app has no such item, or the input refers to too many.
    """
    previous = None
    if (id := body.previous_response_id) is not None:
        found = await look_up(request, id)
        job = background_of(request).find(app_of(request), id)
        if found is None and job is not None and not job.status.ended:
            raise ApiError(
                409,
                f"previous_response_id: the response {id!r} is not complete. Send this request again when "
                "it is.",
                param="previous_response_id",
                code="response_not_complete",
                headers={"x-should-retry": "false"},
            )
        if found is None:
            raise ApiError(
                400,
                f"previous_response_id: there is no stored response {id!r}. Send the whole conversation.",
                param="previous_response_id",
                code="previous_response_not_found",
            )
        previous = found[1]
    references = body.references()
    if len(references) > MAX_ITEMS:  # each may be as long as a context
        raise InvalidRequestError(
            "input", f"refers to {len(references)} items, and at most {MAX_ITEMS} are allowed. Send them."
        )
    if references:
        models = server_state_of(request).pool.models
        wanted = {id for id in references.values() if isinstance(id, str)}
        items = await asyncio.to_thread(_find_items, models, app_of(request), wanted, previous)
        assert isinstance(body.input, list)
        for index, id in references.items():
            if not isinstance(id, str) or id not in items:
                raise InvalidRequestError(
                    f"input[{index}].id", f"there is no stored item {shown(id)}. Send the item itself."
                )
            body.input[index] = items[id]
    return previous


def _find_items(
    models: Sequence[PooledModel], app: str, ids: Collection[str], previous: StoredResponse | None
) -> dict[str, Item]:
    """Return the items of ``app`` with these ids: of ``previous``, else of the conversation used last."""
    found: dict[str, Item] = {}
    for response in _conversations(models, app, previous):
        for item in (*input_items(response), *response.body["output"]):
            if item["id"] in ids:
                found.setdefault(item["id"], item)
        if len(found) == len(ids):
            break
    return found


def _conversations(
    models: Sequence[PooledModel], app: str, previous: StoredResponse | None
) -> Iterator[StoredResponse]:
    """Yield ``previous``, and the last response of each conversation of ``app``. Blocks for the disk."""
    if previous is not None:
        yield previous
    for model in models:
        for context in model.context_table.contexts(app):
            if context.kind is ContextKind.RESPONSES and context.turns:
                last = context.turns[-1].response
                assert last is not None
                yield StoredResponse(last, context)
