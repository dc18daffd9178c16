"""Guesses by asking a smaller model at any OpenAI-compatible endpoint (SpecTools §4.1)."""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

from agentrt._completion import as_completed, produced_elsewhere
from agentrt._hosts import worker_loop
from agentrt._threads import wait_for
from agentrt.calls import ToolCall, ToolCallFormat, parse_arguments, parse_tool_calls
from agentrt.drafts import DraftRequest
from agentrt.errors import ConfigurationError, MissingExtraError


class EndpointSpeculator:
    """Asks ``model`` at an OpenAI-compatible endpoint for the call the main model is about to make.

    The samples are requests of their own, sent at once; the first is greedy, so that more samples never
    guess worse, the others are drawn at ``temperature``. Nothing is retried: an endpoint that is down,
    slow or writes garbage costs its guesses, which the report says, and nothing else.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        samples: int | None = None,
        temperature: float = 0.7,
        format: ToolCallFormat | None = None,
        max_tokens: int = 256,
        timeout: float = 30.0,
    ) -> None:
        """Create the predictor; nothing is sent yet.

        ``base_url`` and ``api_key`` default as in the OpenAI client. ``samples`` overrides the number that
        the session asks for. ``format`` is how the model writes calls into its text, for servers that do
        not parse them; parsed calls are used where there are any. ``timeout`` is in seconds.

        Raises:
            MissingExtraError: the openai package is not installed.
            ConfigurationError: ``samples`` is below 1, or there is no API key.
        """
        try:
            import openai
        except ModuleNotFoundError as error:
            raise MissingExtraError("openai", "openai") from error
        if samples is not None and samples < 1:
            raise ConfigurationError(f"samples is {samples}: use at least 1.")
        self.name = f"endpoint {model}"
        self._model = model
        self._samples = samples
        self._temperature = temperature
        self._format = format
        self._max_tokens = max_tokens
        try:
            self._client = openai.AsyncOpenAI(
                base_url=base_url, api_key=api_key, timeout=timeout, max_retries=0
            )
        except openai.OpenAIError as error:
            raise ConfigurationError(
                f"{error} Or pass api_key= (any text for servers without keys)."
            ) from error

    async def drafts(self, request: DraftRequest) -> AsyncIterator[ToolCall]:
        """Yield the calls of each sample as it comes."""
        # Connections belong to the loop they were made on. All requests go by the worker loop, so that
        # one set of open connections serves callers on any loop, or on none.
        produced: AsyncGenerator[list[ToolCall], None] = produced_elsewhere(
            lambda put: worker_loop.run(self._ask(request, put))
        )
        async with aclosing(produced):
            async for calls in produced:
                for call in calls:
                    yield call

    async def aclose(self) -> None:
        """Close the connections."""
        closed = worker_loop.run(self._client.close())
        await wait_for(closed)
        closed.result()

    async def _ask(self, request: DraftRequest, put: Callable[[list[ToolCall]], None]) -> None:
        async def sample(temperature: float) -> list[ToolCall]:
            completion = await self._client.chat.completions.create(
                model=self._model,
                messages=request.messages,  # type: ignore[arg-type]
                tools=request.tools,  # type: ignore[arg-type]
                temperature=temperature,
                max_completion_tokens=self._max_tokens,
            )
            return self._calls(completion)

        drawn = (self._samples or request.samples) - 1
        temperatures = [0.0] + [self._temperature] * drawn
        async for calls in as_completed([functools.partial(sample, each) for each in temperatures]):
            put(calls)

    def _calls(self, completion: Any) -> list[ToolCall]:
        """Read the calls out of an answer; raises on an answer that cannot be read."""
        calls = []
        for choice in completion.choices:
            native = choice.message.tool_calls or ()
            calls += [
                ToolCall(call.function.name, parse_arguments(call.function.arguments)) for call in native
            ]
            if not native and self._format is not None:
                calls += parse_tool_calls(choice.message.content or "", self._format)[1]
        return calls
