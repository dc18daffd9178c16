"""``POST /v1/responses/compact``: a conversation in fewer items, with a summary by the model."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final

from fastapi import APIRouter, Request
from fastapi.responses import Response

from agentrt.errors import InvalidRequestError

from ...contexts.response_chains import StoredResponse
from ...engine.output.generation import Generation, GenerationEvent
from ...pool.responses.common_request import PrioritizedRequest
from ...pool.responses.items import Conversation, compacted_items, stored_messages, usage_of
from ...request.options import GenerationOptions
from ..http.request_state import app_of, header_priority
from ..http.strict_json import StrictJsonRoute
from .answers import AnswerWriter, answer
from .server_state import header_session, server_state_of
from .stored_items import previous_response

_SUMMARY_TOKENS: Final = 1024
_REQUEST: Final = (
    "Summarize the conversation so far, so that you can go on without it: what is wanted, what was decided "
    "and done, what you learned from tools that still matters, and what is open. Write only the summary."
)

router = APIRouter(route_class=StrictJsonRoute)


class CompactRequest(Conversation, PrioritizedRequest):
    """A conversation to be compacted."""

    prompt_cache_key: str | None = None
    """A hint; see :class:`ResponsesRequest`."""


@router.post("/v1/responses/compact", summary="Compact a conversation")
async def compact(body: CompactRequest, request: Request) -> Response:
    """Return the messages of the user, then one item with the model's summary of the conversation.

    They are the input of further requests, in place of the conversation. The item holds the summary encoded,
    not encrypted, and nothing is stored: whoever has the item can read it.
    """
    model = server_state_of(request).model(body.model)
    body.take_priority(header_priority(request))
    writer = _CompactionWriter(model.name, body, await previous_response(request, body))
    options: GenerationOptions = {
        "priority": body.runtime_priority,
        "app": app_of(request),
        "session": header_session(request),
    }
    return await answer(request, model, writer, [writer.prompt], options)


class _CompactionWriter(AnswerWriter):
    """Writes the summary of a conversation as an item, behind the items that stay."""

    default_tokens: ClassVar = _SUMMARY_TOKENS
    shorten = "Compact the conversation before it is as long as the context, or shorten the input"

    def __init__(self, model: str, request: CompactRequest, previous: StoredResponse | None) -> None:
        """``model`` is the model's name in this server; ``previous`` is what ``request`` continues.

        Raises:
            InvalidRequestError: an item is wrong, or there is none.
        """
        super().__init__(model, stream=False, id=f"resp_{secrets.token_hex(24)}")
        self._request = request
        self._input = request.input_messages()
        self._messages = [*(previous.messages if previous else ()), *self._input]
        if not self._messages:
            raise InvalidRequestError(
                "input", "there is nothing to compact. Send a conversation, or previous_response_id."
            )

    @property
    def prompt(self) -> list[Any]:
        """The instructions, the conversation, and the request for a summary."""
        instructions = self._request.instructions
        system = [{"role": "system", "content": instructions}] if instructions else []
        return [*system, *self._messages, {"role": "user", "content": _REQUEST}]

    def field_name(self, field: str, prompt: int) -> str:
        return self._request.field_name(field, len(self.prompt) - 1 - len(self._input))

    def chunks(self, index: int, event: GenerationEvent) -> Iterable[Mapping[str, Any]]:
        return ()  # it is never streamed

    def body(self, generations: Sequence[Generation]) -> dict[str, Any]:
        (generation,) = generations
        return {
            "id": self.id,
            "object": "response.compaction",
            "created_at": int(time.time()),
            "output": compacted_items(stored_messages(self._messages), generation.text),
            "usage": usage_of(generation),
        }
