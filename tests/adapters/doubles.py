"""Chat models that follow a script, on every path LangChain has."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from pydantic import Field

from agentrt import DraftRequest, ToolCall
from agentrt.reports.events import SpeculationEvent
from agentrt.testing import ScriptedSpeculator
from tests.patience import PATIENCE_S

Calls = Sequence[tuple[str, dict[str, Any]]]


class ScriptedChat(BaseChatModel):
    """Answers turn by turn: with the calls of ``script[turn]``, and after the last turn with ``"done"``.

    The turn is the number of tool messages in the history. ``delay`` passes in (virtual) async time;
    sync paths wait for ``gate(turn)`` instead, so that tests need no clock.
    """

    script: list[Calls] = Field(default_factory=list)
    delay: float = 0.0
    gate: Callable[[int], None] = lambda turn: None
    asked: list[int] = Field(default_factory=list)
    prefix: str = "main"

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:
        return self.bind(tools=[getattr(tool, "name", str(tool)) for tool in tools], **kwargs)

    def _begin(self, messages: list[BaseMessage]) -> AIMessage:
        turn = 0
        for calls in self.script:
            if sum(message.type == "tool" for message in messages) < sum(map(len, self.script[: turn + 1])):
                break
            del calls
            turn += 1
        self.asked.append(turn)
        if turn == len(self.script):
            return AIMessage("done")
        return AIMessage(
            f"turn {turn}",
            tool_calls=[
                {"name": name, "args": args, "id": f"{self.prefix}_{turn}_{number}"}
                for number, (name, args) in enumerate(self.script[turn])
            ],
        )

    def _result(self, message: AIMessage) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _chunks(self, message: AIMessage) -> list[ChatGenerationChunk]:
        chunks = [AIMessageChunk(content=word) for word in str(message.content).split(" ")]
        for index, call in enumerate(message.tool_calls):
            text = json.dumps(call["args"])
            for name, id, part in ((call["name"], call["id"], text[:3]), (None, None, text[3:])):
                piece = {"name": name, "args": part, "id": id, "index": index, "type": "tool_call_chunk"}
                chunks.append(AIMessageChunk(content="", tool_call_chunks=[piece]))
        return [ChatGenerationChunk(message=chunk) for chunk in chunks]

    def _generate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kw: Any
    ) -> Any:
        message = self._begin(messages)
        self.gate(self.asked[-1])
        return self._result(message)

    async def _agenerate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kw: Any
    ) -> Any:
        message = self._begin(messages)
        await asyncio.sleep(self.delay)
        return self._result(message)

    def _stream(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kw: Any
    ) -> Iterator[ChatGenerationChunk]:
        message = self._begin(messages)
        self.gate(self.asked[-1])
        yield from self._chunks(message)

    async def _astream(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kw: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        message = self._begin(messages)
        await asyncio.sleep(self.delay)
        for chunk in self._chunks(message):
            yield chunk


class Silent(ScriptedChat):
    """Calls without a word beside the call, as lookahead requests need it and most models do."""

    def _begin(self, messages: list[BaseMessage]) -> AIMessage:
        message = super()._begin(messages)
        return message.model_copy(update={"content": ""}) if message.tool_calls else message


class Oracle:
    """Predicts the calls of ``script``, one a turn, after ``delay``; those of the ``wrong`` turns wrongly."""

    def __init__(self, script: Sequence[Calls], wrong: Sequence[int] = (), *, delay: float) -> None:
        self._script = script
        self._wrong = wrong
        self._delay = delay

    async def drafts(self, request: DraftRequest) -> AsyncIterator[ToolCall]:
        await asyncio.sleep(self._delay)
        turn = sum(message["role"] == "tool" for message in request.messages)
        if turn < len(self._script):
            ((name, arguments),) = self._script[turn]
            yield ToolCall(name, {"q": arguments["q"] + "x" * (turn in self._wrong)})


class Milestones:
    """Named events that threads reach and wait for; waiting for one never reached fails the test."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._events: dict[str, threading.Event] = {}

    def _event(self, name: str) -> threading.Event:
        with self._lock:
            return self._events.setdefault(name, threading.Event())

    def reach(self, name: str) -> None:
        self._event(name).set()

    def until_started(self, turn: int) -> None:
        """Let a model answer each of three turns only once its predicted tool has started."""
        if turn < 3:
            self.wait(f"started q{turn}")

    def wait(self, name: str) -> None:
        assert self._event(name).wait(PATIENCE_S), f"{name} was never reached"


class Decided:
    """Lets a sync model answer once one of these events of speculation has come."""

    def __init__(self, *events: type[SpeculationEvent]) -> None:
        self._events = events
        self._came = threading.Event()

    def on_event(self, event: SpeculationEvent) -> None:
        if isinstance(event, self._events):
            self._came.set()

    def gate(self, turn: int) -> None:
        assert self._came.wait(PATIENCE_S)


class Waiting(ScriptedChat):
    """Answers once its call is being speculated on: ``look`` with ``q0``, ``q1``, … by turns."""

    milestones: Any

    async def _agenerate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> Any:
        result = await super()._agenerate(messages, *args, **kwargs)
        if self.asked[-1] < len(self.script):
            await asyncio.to_thread(self.milestones.wait, f"started q{self.asked[-1]}")
        return result


class AskedAgain(ScriptedSpeculator):
    """Lets a test wait until it has been asked for a second turn."""

    def __init__(self, *turns: Sequence[ToolCall | Exception]) -> None:
        super().__init__(*turns)
        self.again = threading.Event()

    async def drafts(self, request: DraftRequest) -> AsyncIterator[ToolCall]:
        async for draft in super().drafts(request):
            yield draft
        if len(self.requests) > 1:
            self.again.set()
