"""Reading a streamed answer on its way to the agent."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from typing import Any

from pydantic_ai.messages import (
    ModelResponseStreamEvent,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ToolCallPart,
    ToolCallPartDelta,
)
from pydantic_ai.models import ModelRequestParameters, StreamedResponse

from agentrt.adapting import Turn
from agentrt.calls import CallArgumentsDelta, CallStarted, ParserEvent, TextDelta

from .messages import calls_of


def read_beside(turn: Turn, stream: StreamedResponse, parameters: ModelRequestParameters) -> None:
    """Let ``turn`` observe the events of ``stream`` as they are read, and bind it at their end."""
    events_of_model = stream._get_event_iterator

    async def events() -> AsyncIterator[ModelResponseStreamEvent]:
        reader = AnswerReader()
        async with aclosing(events_of_model()) as events:  # type: ignore[type-var]
            async for event in events:
                for seen in reader.read(event):
                    turn.observe(seen)
                yield event
        turn.bind(calls_of(stream.get(), parameters))

    stream._get_event_iterator = events  # type: ignore[method-assign]


class AnswerReader:
    """Reads the events of one streamed answer as those that predictors take."""

    def __init__(self) -> None:
        """Create a reader of an answer that has not begun."""
        self._calls: dict[int, int] = {}
        self._started = 0

    def read(self, event: ModelResponseStreamEvent) -> Iterator[ParserEvent]:
        """Yield what the next event adds to the text, or to the arguments of a call."""
        match event:
            case PartStartEvent(part=TextPart(content=text)) if text:
                yield TextDelta(text)
            case PartStartEvent(index=index, part=ToolCallPart() as call):
                number = self._calls[index] = self._started
                self._started += 1
                yield CallStarted(number, call.tool_name, call.tool_call_id)
                yield from _arguments(number, call.args)
            case PartDeltaEvent(delta=TextPartDelta(content_delta=text)) if text:
                yield TextDelta(text)
            case PartDeltaEvent(index=index, delta=ToolCallPartDelta() as piece) if index in self._calls:
                if piece.tool_name_delta or isinstance(piece.args_delta, dict):
                    del self._calls[index]  # it is another call than the one that was started
                else:
                    yield from _arguments(self._calls[index], piece.args_delta)


def _arguments(number: int, arguments: str | dict[str, Any] | None) -> Iterator[ParserEvent]:
    if arguments:
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        yield CallArgumentsDelta(number, text)
