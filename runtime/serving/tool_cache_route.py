"""``POST /v1/cache-tool-output/{response_id}`` (SpecTools §4.1)."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from agentrt.concurrency.fair_threads import Cancellation

from ..toolcache.outputs import ToolOutputs
from .http.request_state import app_of, open_responses_of, threads_of
from .http.streaming import cancel_on_disconnect
from .http.strict_json import StrictJsonRoute

CAPABILITY = "cache-tool-output"
"""Listed in a model's ``capabilities`` where clients can submit tool outputs."""

TAKES_PREDICTED_CALLS = "takes_predicted_calls"
"""True in the first event of a stream for which clients can submit predicted calls."""

MAX_ENTRIES = 64
"""Of one submission."""

router = APIRouter(route_class=StrictJsonRoute)


class ToolOutputEntry(BaseModel):
    """A tool call and its output, or a predicted call."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)

    name: str = Field(min_length=1, max_length=256)
    params: dict[str, Any] | None = None
    """The call's arguments; no arguments if left out."""
    output: Any = None
    """Text. Any other JSON value is stored as its JSON text. Left out, or ``null``, for a predicted call, of
    which no output is known: that is not in the paper."""
    keep_alive: float | None = Field(default=None, gt=0)
    """Seconds for which the output may be used."""
    reusable: bool = True
    """Whether the output answers any number of equal calls, as in the paper, or one. Not in the paper."""

    @property
    def is_predicted(self) -> bool:
        """Whether it is a predicted call, without an output."""
        return self.output is None

    @property
    def text(self) -> str:
        """The output as text."""
        return self.output if isinstance(self.output, str) else json.dumps(self.output, ensure_ascii=False)

    @model_validator(mode="before")
    @classmethod
    def _refuse_other_fields(cls, value: Any) -> Any:
        """Raise for the first field that there is not: Pydantic would report all of them, however many."""
        fields = value if isinstance(value, dict) else {}
        for name in fields:
            if name not in cls.model_fields:
                raise PydanticCustomError(
                    "extra_forbidden", "there is no field {name}. Leave it out.", {"name": repr(name)}
                )
        return value


@router.post("/v1/cache-tool-output/{response_id}", summary="Submit tool outputs ahead of their calls")
@router.post("/cache-tool-output/{response_id}", include_in_schema=False)
async def cache_tool_output(
    response_id: str,
    body: Annotated[list[ToolOutputEntry], Field(max_length=MAX_ENTRIES)],
    request: Request,
) -> JSONResponse:
    """Store tool outputs for a response in progress; ``cached`` is the number of accepted entries.

    When the model makes such a call, the stream contains the output after the call, and the model continues.
    An output is not accepted if the response has ended, the request has no such tool or must return a call,
    or the cache is full. An entry without ``output`` is a predicted call, which the engine drafts. It is not
    accepted unless the first event of the stream has ``takes_predicted_calls``.
    """
    outputs = open_responses_of(request).outputs_of(response_id, app_of(request))
    if outputs is None:
        return JSONResponse({"cached": 0})

    def put_all(cancellation: Cancellation) -> int:
        return sum(_put(outputs, entry, cancellation) for entry in body)

    # A runtime tokenizes each output, which takes milliseconds.
    cached = await cancel_on_disconnect(request, threads_of(request).run(app_of(request), put_all))
    return JSONResponse({"cached": cached})


def _put(outputs: ToolOutputs, entry: ToolOutputEntry, cancellation: Cancellation) -> bool:
    cancellation.check()
    if entry.is_predicted:
        return outputs.predict(entry.name, entry.params or {})
    return outputs.put(entry.name, entry.params or {}, entry.text, entry.keep_alive, reusable=entry.reusable)
