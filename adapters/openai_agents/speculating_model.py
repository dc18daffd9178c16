"""The methods that turn a model of the Agents SDK into a speculating one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agents import ModelResponse
from agents.models.interface import Model

from agentrt.adapting import Turn, Turns
from agentrt.calls import ParserEvent, ToolCall, parse_arguments

from ..openai.response_history import ResponseEvents, ResponseHistory
from .model_request import ModelRequest, guards_of


@dataclass(frozen=True, eq=False)
class ModelState:
    """Predictors, settings and reports of a speculating model, or of all models of a provider."""

    turns: Turns
    history: ResponseHistory = field(default_factory=ResponseHistory)
    classes: dict[type, type] = field(default_factory=dict)
    """The speculating classes by those of the user's models and providers."""

    def __deepcopy__(self, memo: object) -> ModelState:
        """Return the state itself: a copy of a model reports to, and learns with, the same state."""
        return self


def tool_calls(output: Sequence[Any]) -> list[ToolCall]:
    """Return the calls of function tools in an answer's items, without those whose arguments are not JSON."""
    calls = []
    for item in output:
        if getattr(item, "type", None) == "function_call":
            with suppress(ValueError):
                calls.append(ToolCall(item.name, parse_arguments(item.arguments), item.call_id))
    return calls


class StreamedAnswer:
    """Reads the events of one streamed answer, which have the shape of the responses API."""

    def __init__(self) -> None:
        """Create a reader of one answer."""
        self.response_id: str | None = None
        """The id of the answer, once it is complete."""
        self._items: list[Any] = []
        self._events = ResponseEvents()

    def read(self, event: Any) -> Iterator[ParserEvent]:
        """Read the next event; yield it as the events that predictors take."""
        yield from self._events.read(event)
        if event.type == "response.output_item.done":
            self._items.append(event.item)

    def complete(self, event: Any) -> Sequence[Any] | None:
        """Return all items of the answer if ``event`` ends it, else None.

        Some endpoints leave them out of the last event; the SDK then takes those that came before, too.
        """
        if event.type != "response.completed":
            return None
        self.response_id = event.response.id
        return event.response.output or self._items


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
