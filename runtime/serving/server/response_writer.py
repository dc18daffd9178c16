"""Writes one response as server-sent events."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from typing import Any, Final

from agentrt.concurrency.fair_threads import give_way

from ...pool.responses.builder import Event, ResponseBuilder
from ..http.errors import ApiError
from ..http.strict_json import compact_json, json_pieces
from .answers import AnswerWriter

DONE: Final = "data: [DONE]\n\n"
"""What a stream ends with."""
_LAST_EVENTS: Final = ("response.completed", "response.incomplete", "response.failed")
_PADDED_TO: Final = 32
"""Bytes of which a padded delta and its padding have a multiple."""


class ResponseWriter(ResponseBuilder, AnswerWriter):
    """Builds one response, and writes its events as they are sent."""

    def failure(self, error: ApiError) -> Event:
        """Return the event of a response that failed."""
        return self.failed(error.detail)

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
        end = DONE if kind in _LAST_EVENTS else ""
        return f"event: {kind}\ndata: {data}\n\n{end}"
