"""The model of an agent run, with a turn beside each of its requests."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import RunContext

from .agent_run import AgentRun
from .messages import calls_of
from .streaming import read_beside


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
