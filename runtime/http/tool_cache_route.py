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
from .strict_json import StrictJsonRoute

CAPABILITY = "cache-tool-output"
"""Listed in a model's ``capabilities`` where clients can submit tool outputs."""

_MAX_ENTRIES = 64

router = APIRouter(route_class=StrictJsonRoute)


class ToolOutputEntry(BaseModel):
    """A tool call and its output."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)

    name: str = Field(min_length=1, max_length=256)
    params: dict[str, Any] | None = None
    """The call's arguments; no arguments if left out."""
    output: Any
    """Text. Any other JSON value is stored as its JSON text."""
    keep_alive: float | None = Field(default=None, gt=0)
    """Seconds for which the output may be used."""
    reusable: bool = True
    """Whether the output answers any number of equal calls, as in the paper, or one. Not in the paper."""


@router.post("/v1/cache-tool-output/{response_id}", summary="Submit tool outputs ahead of their calls")
@router.post("/cache-tool-output/{response_id}", include_in_schema=False)
async def cache_tool_output(
    response_id: str,
    body: Annotated[list[ToolOutputEntry], Field(max_length=_MAX_ENTRIES)],
    request: Request,
) -> JSONResponse:
    """Store tool outputs for a response in progress; ``cached`` is the number of accepted outputs.

    When the model makes such a call, the stream contains the output after the call, and the model continues.
    An output is not accepted if the response has ended, the request has no such tool, or the cache is full.
    """
    outputs = open_responses_of(request).outputs_of(response_id, app_of(request))
    if outputs is None:
        return JSONResponse({"cached": 0})
    # A runtime tokenizes each output, which takes milliseconds.
    return JSONResponse({"cached": await asyncio.to_thread(_put_all, outputs, body)})


def _put_all(outputs: ToolOutputs, entries: list[ToolOutputEntry]) -> int:
    return sum(
        outputs.put(
            entry.name, entry.params or {}, _text(entry.output), entry.keep_alive, reusable=entry.reusable
        )
        for entry in entries
    )


def _text(output: Any) -> str:
    return output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)
