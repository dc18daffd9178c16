"""The model of an agent run, with a turn beside each of its requests, whole or streamed."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    ModelResponseStreamEvent,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ToolCallPart,
    ToolCallPartDelta,
)
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import RunContext

from agentrt.adapting import Turn
from agentrt.calls import CallArgumentsDelta, CallStarted, ParserEvent, TextDelta

from .agent_run import AgentRun
from .messages import calls_of


class SpeculatingModel(WrapperModel):
    """The user's model, with a turn beside each request that is bound to the calls of the answer."""

    def __init__(self, wrapped: Model, run: AgentRun) -> None:
        """``run`` is the agent run that the requests belong to."""
        super().__init__(wrapped)
        self._agent_run = run

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Send a request, and speculate on the calls of its answer meanwhile."""
        turn = self._agent_run.start_turn(messages, model_settings, model_request_parameters)
        if turn is None:
            return await self.wrapped.request(messages, model_settings, model_request_parameters)
        with turn:
            response = await self.wrapped.request(messages, model_settings, model_request_parameters)
            turn.bind(calls_of(response, model_request_parameters))
        return response

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        """Stream the answer to a request, and speculate on its calls meanwhile."""
        turn = self._agent_run.start_turn(messages, model_settings, model_request_parameters)
        sent = self.wrapped.request_stream(messages, model_settings, model_request_parameters, run_context)
        if turn is None:
            async with sent as stream:
                yield stream
            return
        with turn:
            async with sent as stream:
                read_beside(turn, stream, model_request_parameters)
                yield stream


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
