"""The methods that turn a model of the Agents SDK into a speculating one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from agents import ModelResponse
from agents.models.interface import Model

from agentrt.adapting import Turn

from .answers import StreamedAnswer, tool_calls
from .guards import guards_of
from .model_request import ModelRequest
from .model_state import ModelState

# At run time the user's model is the base class.
if TYPE_CHECKING:
    _Base = Model
else:
    _Base = object


class SpeculatingModel(_Base):
    """Mixin of every speculating model; ``super()`` is the user's model.

    Each method starts a turn beside the model's own method and binds it to the tool calls of the answer.
    """

    if TYPE_CHECKING:
        _agentrt_state: ModelState

    async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
        """Return the answer to a request; speculate meanwhile."""
        request = ModelRequest.of(args, kwargs)
        if not request.speculable:
            return await super().get_response(*args, **kwargs)  # type: ignore[safe-super]
        with _start_turn(self._agentrt_state, request) as turn:
            response = await super().get_response(*args, **kwargs)  # type: ignore[safe-super]
            with turn.reading():
                _bind(self._agentrt_state, turn, request, response.output, response.response_id)
        return response

    async def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        """Yield the events of the answer to a request; speculate meanwhile."""
        request = ModelRequest.of(args, kwargs)
        if not request.speculable:
            async with _closing(super().stream_response(*args, **kwargs)) as events:  # type: ignore[safe-super]
                async for event in events:
                    yield event
            return
        answer = StreamedAnswer()
        with _start_turn(self._agentrt_state, request) as turn:
            async with _closing(super().stream_response(*args, **kwargs)) as events:  # type: ignore[safe-super]
                async for event in events:
                    with turn.reading():
                        for seen in answer.read(event):
                            turn.observe(seen)
                        # Before the event is handed on: with the last one the SDK may make the calls.
                        items = answer.complete(event)
                        if items is not None:
                            _bind(self._agentrt_state, turn, request, items, answer.response_id)
                    yield event


def _start_turn(state: ModelState, request: ModelRequest) -> Turn:
    """Start a turn beside a request that is about to be sent in this context."""
    return state.turns.start(
        lambda: request.draft_request(state.history),
        tools=request.speculable,
        offered=request.offered,
        guards=lambda: guards_of(request),
        answered=request.answered_ids,
    )


def _bind(
    state: ModelState, turn: Turn, request: ModelRequest, items: Sequence[Any], response_id: str | None
) -> None:
    """Bind a turn to the calls of the answer, which later requests may continue by its id."""
    if response_id is not None:
        state.history.remember(request.body, response_id, items)
    turn.bind(tool_calls(items))


@asynccontextmanager
async def _closing(events: AsyncIterator[Any]) -> AsyncIterator[AsyncIterator[Any]]:
    """Close the events at the end of the block; those of some models cannot be closed."""
    try:
        yield events
    finally:
        aclose = getattr(events, "aclose", None)
        if aclose is not None:
            await aclose()
