"""``POST /v1/cache-tool-output/{response_id}`` (SpecTools §4.1)."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated, Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from ..toolcache.outputs import ToolOutputs
from .request_state import app_of, open_responses_of
from .strict_json import StrictRoute

CAPABILITY = "cache-tool-output"
"""What a model in the list of models names among its ``capabilities`` where outputs can be submitted."""

_MOST_ENTRIES = 64

router = APIRouter(route_class=StrictRoute)


class ToolOutputEntry(BaseModel):
    """One finished call."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)

    name: str = Field(min_length=1, max_length=256)
    params: dict[str, Any] | None = None
    """The arguments of the call; none if left out."""
    output: Any
    """Text, or what becomes text as JSON."""
    keep_alive: float | None = Field(default=None, gt=0)
    """Seconds for which the output is good."""


@router.post("/v1/cache-tool-output/{response_id}", summary="Submit tool outputs ahead of their calls")
@router.post("/cache-tool-output/{response_id}", include_in_schema=False)
async def cache_tool_output(
    response_id: str,
    body: Annotated[list[ToolOutputEntry], Field(max_length=_MOST_ENTRIES)],
    request: Request,
) -> JSONResponse:
    """Keep outputs for a response that is being streamed; ``cached`` says how many were accepted.

    When the model makes such a call, the output follows it in the stream and the model goes on. An output
    is not accepted when the response has ended, the request has no such tool, or there is no room.
    """
    outputs = open_responses_of(request).outputs_of(response_id, app_of(request))
    if outputs is None:
        return JSONResponse({"cached": 0})
    # A runtime spells each output in its model's tokens, which takes milliseconds.
    return JSONResponse({"cached": await asyncio.to_thread(_put_all, outputs, body)})


def _put_all(outputs: ToolOutputs, entries: list[ToolOutputEntry]) -> int:
    return sum(
        outputs.put(entry.name, entry.params or {}, _text(entry.output), entry.keep_alive)
        for entry in entries
    )


def _text(output: Any) -> str:
    return output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)
