"""Scripted models and predictors for agents of pydantic-ai, and how their transcripts are compared."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel

from agentrt.calls import ToolCall
from agentrt.drafts import DraftRequest
from agentrt.reports.events import DraftRefused, SpeculationEvent
from tests.patience import PATIENCE_S

Call = tuple[str, dict[str, Any]]
Answer = str | Sequence[Call]
"""A text, or calls with their names and arguments."""


async def at_once(turn: int) -> None:
    """Let the model answer without waiting."""


async def settled() -> None:
    """Let tools that have been started on this loop, and have nothing to wait for, end."""
    for _ in range(50):
        await asyncio.sleep(0)


class Script:
    """The answers of a model, by turns. ``before`` is awaited before each of them."""

    def __init__(self, *answers: Answer, before: Callable[[int], Awaitable[None]] = at_once) -> None:
        self.answers = answers
        self.before = before

    def model(self) -> FunctionModel:
        """Return a model that answers so, streamed or not."""
        return FunctionModel(self._answer, stream_function=self._stream, model_name="scripted")

    def _turn(self, messages: Sequence[ModelMessage]) -> int:
        return sum(isinstance(message, ModelResponse) for message in messages)

    async def _answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        turn = self._turn(messages)
        await self.before(turn)
        answer = self.answers[turn]
        if isinstance(answer, str):
            return ModelResponse(parts=[TextPart(answer)])
        return ModelResponse(
            parts=[
                ToolCallPart(name, json.dumps(arguments), f"call_{turn}_{number}")
                for number, (name, arguments) in enumerate(answer)
            ]
        )

    async def _stream(self, messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        turn = self._turn(messages)
        answer = self.answers[turn]
        if isinstance(answer, str):
            await self.before(turn)
            for word in answer.split(" "):
                yield word + " "
            return
        for number, (name, arguments) in enumerate(answer):
            text = json.dumps(arguments)
            yield {number: DeltaToolCall(name, text[:3], tool_call_id=f"call_{turn}_{number}")}
            yield {number: DeltaToolCall(json_args=text[3:])}
        await self.before(turn)  # the calls are written, and the answer has not ended


class Oracle:
    """Drafts what a script answers; the drafts of ``wrong`` turns have other arguments."""

    name = "oracle"

    def __init__(self, script: Script, wrong: Sequence[int] = ()) -> None:
        self._script = script
        self._wrong = wrong
        self._decided = defaultdict[int, asyncio.Event](asyncio.Event)
        self.requests: list[DraftRequest] = []

    async def drafts(self, request: DraftRequest) -> AsyncIterator[ToolCall]:
        """Yield the calls of the next answer."""
        self.requests.append(request)
        turn = sum(message["role"] == "assistant" for message in request.messages)
        answer = self._script.answers[turn]
        for name, arguments in () if isinstance(answer, str) else answer:
            yield ToolCall(name, {**arguments, "q": "wrong"} if turn in self._wrong else arguments)
        self._decided[turn].set()

    async def decided(self, turn: int) -> None:
        """Wait until the drafts of a turn have been decided on: tools that are run have been started."""
        async with asyncio.timeout(PATIENCE_S):
            await self._decided[turn].wait()


class Happenings:
    """Notes what happens, and lets a test or a model wait for it. An observer of speculation, too."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self._changed = asyncio.Event()

    def note(self, what: str) -> None:
        """Note that something has happened; from the event loop's thread."""
        self.seen.append(what)
        self._changed.set()

    async def until(self, what: str, times: int = 1) -> None:
        """Wait until it has happened so often."""
        await self._until(lambda: self.seen.count(what) >= times)

    async def until_one_of(self, *whats: str) -> None:
        """Wait until any of these has happened."""
        await self._until(lambda: not set(whats).isdisjoint(self.seen))

    async def _until(self, happened: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not happened():
                self._changed.clear()
                await self._changed.wait()

    def on_event(self, event: SpeculationEvent) -> None:
        """Note the name of an event, and of a refused draft the reason."""
        self.note(type(event).__name__)
        if isinstance(event, DraftRefused):
            self.note(f"refused {event.tool}: {event.reason}")


def transcript(messages: Sequence[ModelMessage]) -> Any:
    """Return a history without what differs between equal runs: times and the ids of runs."""
    return _lasting(ModelMessagesTypeAdapter.dump_python(list(messages), mode="json"))


def _lasting(value: Any) -> Any:
    if isinstance(value, dict):
        changing = ("timestamp", "run_id", "conversation_id")
        return {key: _lasting(item) for key, item in value.items() if key not in changing}
    if isinstance(value, list):
        return [_lasting(item) for item in value]
    return value
