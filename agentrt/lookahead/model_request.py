"""The request of the main model that turn-ahead can send before it is due."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Generator, Sequence
from dataclasses import replace
from typing import Any, Protocol

from ..calls import ToolCall
from ..drafts import DraftRequest, Speculator


class ModelRequest(Protocol):
    """One request of the main model, as an adapter can send it, when it is due or ahead of that."""

    @property
    def key(self) -> str:
        """Equal for requests that are equal but for the ids of calls."""
        ...

    @property
    def predictors(self) -> Sequence[Speculator]:
        """The predictors of the calls in the answer."""
        ...

    def request(self) -> DraftRequest:
        """Return the request in the form that predictors take."""
        ...

    def after(self, call: ToolCall, result: Any) -> ModelRequest | None:
        """Return the next request if the model makes only this call, with this result; None if unknown."""
        ...

    def stream(self) -> AsyncGenerator[Any, None] | Generator[Any, None, None]:
        """Send the request and yield the answer, in pieces if it is streamed.

        A generator that is not async blocks, and runs in a thread of its own.
        """
        ...


def after_draft(request: DraftRequest, call: ToolCall) -> DraftRequest:
    """Return what look-ahead predictors take: the history with ``call`` made, without its result."""
    function = {"name": call.name, "arguments": json.dumps(dict(call.arguments), ensure_ascii=False)}
    made = {"id": f"ahead_{len(request.messages)}", "type": "function", "function": function}
    message = {"role": "assistant", "content": "", "tool_calls": [made]}
    return replace(request, messages=[*request.messages, message], ahead=True)
