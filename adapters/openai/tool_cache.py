"""Submitting speculated results to an endpoint with a tool cache (SpecTools, Algorithm 4)."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from typing import Any

import openai

from agentrt.calls import ToolCall
from agentrt.concurrency.threads import loop_caller, start_in_thread
from agentrt.toolcache import TakeResult, result_text
from agentrt.turns.turn import Turn

CAPABILITY = "cache-tool-output"
"""Listed by an endpoint with a tool cache among the ``capabilities`` of a model."""

_TRANSIENT = (openai.APIConnectionError, openai.RateLimitError, openai.InternalServerError)
_MAX_FAILURES = 3


class ToolCacheEndpoint:
    """The endpoint of one client.

    If its list of models cannot be read it counts as an endpoint without a tool cache: at once if it refuses,
    after three attempts if it is busy or cannot be reached.
    """

    def __init__(self) -> None:
        """Create the endpoint; its list of models is requested when there is a first result."""
        self._has_cache: bool | None = None
        self._failures = 0

    @property
    def may_have_cache(self) -> bool:
        """Whether it has a tool cache, or its list of models has not been read yet."""
        return self._has_cache is not False

    def follow(self, turn: Turn, client: Any, response_id: str) -> None:
        """Submit the results of the turn's speculations for a response that is being streamed."""
        take = self.submitter(client, response_id)

        def listen(call: ToolCall, value: Any) -> None:
            text = result_text(value)
            if text is not None:
                take(call, text)

        turn.on_finished(listen)

    def submitter(self, client: Any, response_id: str) -> TakeResult:
        """Return a function that submits a result for a response that is being streamed.

        With an async client, this method must be called on the client's event loop.
        """
        submit: Callable[[Any], object]
        if isinstance(client, openai.AsyncOpenAI):
            call_soon, tasks = loop_caller(), set[asyncio.Task[None]]()

            def start(body: Any) -> None:
                task = asyncio.create_task(self._asubmit(client, response_id, body))
                tasks.add(task)  # the loop keeps weak references only
                task.add_done_callback(tasks.discard)

            def submit(body: Any) -> None:
                call_soon(functools.partial(start, body))
        else:

            def submit(body: Any) -> None:
                start_in_thread(lambda: self._submit(client, response_id, body), name="agentrt tool cache")

        def take(call: ToolCall, text: str) -> None:
            if self.may_have_cache:
                submit(_entry(call, text))

        return take

    def _submit(self, client: openai.OpenAI, response_id: str, body: Any) -> None:
        try:
            if self._has_cache is None:
                self._has_cache = _names_capability(list(client.models.list()))
            if self._has_cache:
                client.post(_path(response_id), cast_to=object, body=body)
        except openai.OpenAIError as error:
            self._note_failure(error)

    async def _asubmit(self, client: openai.AsyncOpenAI, response_id: str, body: Any) -> None:
        try:
            if self._has_cache is None:
                self._has_cache = _names_capability([model async for model in client.models.list()])
            if self._has_cache:
                await client.post(_path(response_id), cast_to=object, body=body)
        except openai.OpenAIError as error:
            self._note_failure(error)

    def _note_failure(self, error: openai.OpenAIError) -> None:
        self._failures += 1
        if not isinstance(error, _TRANSIENT) or self._failures == _MAX_FAILURES:
            self._has_cache = self._has_cache or False


def _names_capability(models: list[Any]) -> bool:
    return any(CAPABILITY in (getattr(model, "capabilities", None) or ()) for model in models)


def _path(response_id: str) -> str:
    return f"/cache-tool-output/{response_id}"


def _entry(call: ToolCall, text: str) -> list[dict[str, Any]]:
    return [{"name": call.name, "params": dict(call.arguments), "output": text}]
