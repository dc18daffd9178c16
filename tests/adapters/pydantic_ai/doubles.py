"""Scripted models and predictors for agents of pydantic-ai, and how their transcripts are compared."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel

from agentrt.adapters.pydantic_ai import SpeculateTools
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


LOOKS: Sequence[Answer] = ([("look", {"q": "a"})], "done")
"""The answers of a model that calls ``look`` once."""


class Speculating:
    """An agent whose model's calls are drafted; it gives an answer once one of ``until`` has happened.

    ``until`` has what each turn waits for, and nothing for the turns after those.
    """

    def __init__(
        self,
        *answers: Answer,
        until: Sequence[str | Sequence[str]] = ("ran a",),
        drafts: Any = None,
        wrong: Sequence[int] = (),
        tools: Any = ("look",),
        **options: Any,
    ) -> None:
        self.until = until
        self.happenings = Happenings()
        self.script = Script(*(answers or LOOKS), before=self._before)
        self.speculation = SpeculateTools[Any](
            drafts or Oracle(self.script, wrong), tools=tools, observers=[self.happenings], **options
        )

    async def _before(self, turn: int) -> None:
        if turn < len(self.until):
            awaited = self.until[turn]
            await self.happenings.until_one_of(*([awaited] if isinstance(awaited, str) else awaited))
            await settled()

    def agent(self, *tools: Any, capabilities: Sequence[Any] = (), **settings: Any) -> Agent[Any, Any]:
        """Return the agent with these tools."""
        return Agent(
            self.script.model(), tools=tools, capabilities=[self.speculation, *capabilities], **settings
        )

    async def look(self, q: str) -> str:
        """Look something up."""
        self.happenings.note(f"ran {q}")
        return f"found {q}"

    @property
    def runs(self) -> list[str]:
        """What has been looked up."""
        return [seen.removeprefix("ran ") for seen in self.happenings.seen if seen.startswith("ran ")]

    @property
    def total(self) -> Any:
        """The totals of the report."""
        return self.speculation.report().total


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
