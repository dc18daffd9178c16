"""`speculate` on every path of an unchanged graph: same transcript, speculated tools."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult

from agentrt import DraftRequest, ToolCall
from agentrt.adapters.langchain import report_of, speculate
from agentrt.adapters.langchain.speculation.bound_tools import LastBoundTools
from agentrt.calls import CallArgumentsDelta, CallStarted, ParserEvent, TextDelta
from agentrt.perfmodel import TurnTimes
from agentrt.testing import ScriptedSpeculator, run_in_virtual_time
from tests.adapters.doubles import Milestones, ScriptedChat, Waiting
from tests.adapters.langchain.graphs import (
    BUILDERS,
    THREE,
    adrive,
    agent,
    async_tool,
    drive,
    ran,
    sync_tool,
    transcript,
)

pytestmark = pytest.mark.usefixtures("prediction_is_free")


@pytest.mark.parametrize("build", BUILDERS)
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("wrong", [frozenset(), frozenset({1}), frozenset({0, 1, 2})])
def test_an_async_graph_takes_what_equation_1_says_and_says_the_same(
    build: Callable[..., Any], streamed: bool, wrong: frozenset[int]
) -> None:
    times = TurnTimes(generation=40, draft=5, tool=30)

    def drafts_of(turn: int) -> list[ToolCall]:
        return [ToolCall("look", {"q": f"q{turn}" + "x" * (turn in wrong), "limit": 3})]

    async def run(speculative: bool) -> tuple[list[Any], float, list[str]]:
        runs: list[str] = []
        model: Any = ScriptedChat(script=THREE, delay=times.generation)
        if speculative:
            model = speculate(model, ScriptedSpeculator(*map(drafts_of, range(3)), delay=times.draft))
        messages = await adrive(build(model, [async_tool(times.tool, runs)]), streamed)
        return transcript(messages), asyncio.get_running_loop().time(), runs

    plain, plain_seconds, _ = run_in_virtual_time(lambda: run(False))
    fast, seconds, runs = run_in_virtual_time(lambda: run(True))
    assert fast == plain
    assert plain_seconds == times.standard(3) + times.generation
    assert seconds == pytest.approx(times.speculative(1 - len(wrong) / 3, 3) + times.generation)
    assert len(runs) == 3 + len(wrong)


@pytest.mark.parametrize("build", BUILDERS)
@pytest.mark.parametrize("streamed", [False, True])
def test_a_sync_graph_runs_its_tools_while_the_model_generates(
    build: Callable[..., Any], streamed: bool
) -> None:
    plain = drive(build(ScriptedChat(script=THREE), [sync_tool([], Milestones())]), streamed)
    milestones, runs = Milestones(), list[str]()
    look = sync_tool(runs, milestones)

    draft = ScriptedChat(script=THREE, prefix="draft")
    model = speculate(ScriptedChat(script=THREE, gate=milestones.until_started), draft)
    assert transcript(drive(build(model, [look]), streamed)) == transcript(plain)
    assert runs == ["q0", "q1", "q2"]
    assert report_of(model).total.claims == 3
    assert report_of(model).total.wasted == 0


def test_a_sync_tool_in_an_async_graph_is_speculated_on_in_a_thread() -> None:
    milestones, runs = Milestones(), list[str]()

    model = speculate(Waiting(script=THREE, milestones=milestones), ScriptedChat(script=THREE))
    asyncio.run(adrive(agent(model, [sync_tool(runs, milestones)]), False))
    assert runs == ["q0", "q1", "q2"]
    assert report_of(model).total.claims == 3


def test_parallel_calls_are_claimed_one_by_one() -> None:
    calls = [("look", {"q": q}) for q in "abc"]
    runs: list[str] = []

    drafts = [ToolCall(*call) for call in calls[:2]]
    messages, report = ran(async_tool(9, runs), script=[calls], drafts=drafts)
    assert [content for kind, content, *_ in messages if kind == "tool"] == [f"found {q} 3" for q in "abc"]
    assert (report.total.claims, report.total.misses) == (2, 1)
    assert runs == ["a", "b", "c"]


# The returned object.


def test_the_copy_passes_for_the_original() -> None:
    plain = ScriptedChat(script=THREE)
    model = speculate(plain, ScriptedSpeculator())
    assert isinstance(model, ScriptedChat)
    assert model is not plain
    assert type(plain) is ScriptedChat
    assert type(model).__name__ == "ScriptedChat"
    assert model.model_dump() == plain.model_dump()
    assert model._serialized == plain._serialized
    assert model._get_ls_params() == plain._get_ls_params()
    again = speculate(model, ScriptedSpeculator())
    assert type(again) is type(model)
    assert report_of(again) == report_of(model)


def test_copies_and_bound_models_share_one_report() -> None:
    look = async_tool(0, [])
    model = speculate(ScriptedChat(script=THREE[:1]), ScriptedSpeculator([ToolCall("look", {"q": "q0"})]))
    for variant in (model.model_copy(), copy.deepcopy(model), model.model_copy(update={"prefix": "x"})):
        asyncio.run(variant.bind_tools([look]).ainvoke("hi"))
    assert len(report_of(model.bind_tools([look]).bind(stop=["x"])).turns) == 3


def test_a_model_that_cannot_stream_still_says_so() -> None:
    class NoStream(BaseChatModel):
        @property
        def _llm_type(self) -> str:
            return "nostream"

        def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
            return self.bind(tools=list(tools), **kwargs)

        def _generate(
            self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
        ) -> ChatResult:
            return ChatResult(generations=[ChatGeneration(message=AIMessage("plain"))])

    model = speculate(NoStream(), ScriptedSpeculator()).bind_tools([async_tool(0, [])])
    assert [chunk.content for chunk in model.stream("hi")] == ["plain"]

    async def main() -> list[Any]:
        return [chunk.content async for chunk in model.astream("hi")] + [(await model.ainvoke("hi")).content]

    assert asyncio.run(main()) == ["plain", "plain"]
    assert len(report_of(model).turns) == 3


def test_structured_output_speculates_nothing() -> None:
    class Structured(ScriptedChat):
        def with_structured_output(self, schema: Any, **kwargs: Any) -> Any:
            return self.bind_tools([schema], tool_choice="any")

    schema = {"title": "Answer", "description": "x", "type": "object", "properties": {}}
    model = speculate(Structured(), ScriptedSpeculator([ToolCall("Answer", {})]))
    assert model.with_structured_output(schema).invoke("hi").content == "done"
    assert model.bind_tools([async_tool(0, [])], tool_choice="none").invoke("hi").content == "done"
    assert report_of(model).turns == ()


class ByStream(ScriptedChat):
    """Implements its whole answers by its streams, as many providers do."""

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> Any:
        chunks = list(self._stream(messages))
        message = chunks[0].message
        for chunk in chunks[1:]:
            message = message + chunk.message  # type: ignore[assignment]
        return self._result(AIMessage(message.content, tool_calls=message.tool_calls))  # type: ignore[attr-defined]

    async def _agenerate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> Any:
        async for _ in self._astream(messages):
            pass
        self.asked.pop()
        return await asyncio.to_thread(self._generate, messages)


class ByDefault(ByStream):
    """Leaves the async paths to LangChain, which comes back through the sync ones in a thread."""

    _agenerate = BaseChatModel._agenerate
    _astream = BaseChatModel._astream


@pytest.mark.parametrize("kind", [ByStream, ByDefault])
def test_a_model_that_calls_itself_speculates_once_a_turn(kind: type[ScriptedChat]) -> None:
    model = speculate(kind(), ScriptedSpeculator()).bind_tools([async_tool(0, [])])

    async def main() -> None:
        await model.ainvoke("hi")
        async for _ in model.astream("hi"):
            pass

    asyncio.run(main())
    model.invoke("hi")
    list(model.stream("hi"))
    assert len(report_of(model).turns) == 4


# Tools bound to a speculating model: made once while an agent binds the same tools in every turn.

LOOK: dict[str, Any] = {"type": "function", "function": {"name": "look", "parameters": {}}}


def test_the_same_tools_are_bound_once() -> None:
    last, look = LastBoundTools(), async_tool(0, [])
    bound = last.bound([look])
    assert last.bound([look]) is last.bound((look,), None) is bound
    assert bound.speculable["look"] is look.__speculable__
    look.description = "Look at it."
    assert last.bound([look]).schemas[0]["function"]["description"] == "Look at it."


def test_other_tools_or_another_choice_are_bound_anew() -> None:
    last, tools = LastBoundTools(), [async_tool(0, [])]
    bound = last.bound(tools)
    tools.append(async_tool(0, []))
    assert len(bound.given) == 1
    others: list[tuple[list[Any], Any]] = [
        (tools[:1], "none"),
        (tools[1:], None),
        (tools[:1], {"type": "tool", "name": "look"}),
        ([LOOK], None),  # a mapping may have changed
    ]
    for each, choice in others:
        assert last.bound(each, choice) is not bound
    assert last.bound(*others[-1]) is not last.bound(*others[-1])
    assert last.bound(*others[-2]) is not last.bound(*others[-2])


def test_what_langchain_keeps_of_a_model_for_traces_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    to_json = ScriptedChat.to_json

    def noted(model: Any) -> Any:
        made.append(model)
        return to_json(model)

    monkeypatch.setattr(ScriptedChat, "to_json", noted)
    model = speculate(ScriptedChat(script=THREE, delay=0), ScriptedSpeculator())
    look = async_tool(0, [])
    for _ in range(5):
        bound: Any = model.bind_tools([look])
        assert bound.bound._serialized
    assert len(made) == 1


# What predictors see of a streamed answer.


class Reader:
    def __init__(self) -> None:
        self.read: list[ParserEvent] = []

    async def drafts(self, request: DraftRequest) -> AsyncIterator[ToolCall]:
        async for event in request.answer.events():
            self.read.append(event)
            if isinstance(event, CallArgumentsDelta) and event.text.endswith("}"):
                yield ToolCall("look", {"q": "a"})


class Streaming(ScriptedChat):
    """Streams chunks as given, one a second."""

    chunks: list[AIMessageChunk]

    async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        for chunk in self.chunks:
            yield ChatGenerationChunk(message=chunk)
            await anyio.sleep(1)


def piece(name: str | None, args: str | None, index: int | None, id: str | None = None) -> AIMessageChunk:
    part: Any = {"name": name, "args": args, "id": id, "index": index, "type": "tool_call_chunk"}
    return AIMessageChunk(content="", tool_call_chunks=[part])


@pytest.mark.parametrize("indices", [(0, 1), (1, 2), (None, None)])
def test_predictors_read_text_and_calls_numbered_from_0(indices: tuple[Any, Any]) -> None:
    first, second = indices
    reader = Reader()
    chunks = [
        AIMessageChunk(content="let me "),
        piece("look", '{"q": ', first, "1"),
        piece(None, '"a"}', first),
        piece("look", '{"q": "b"}', second, "2"),
        AIMessageChunk(content=""),
    ]
    model = speculate(Streaming(chunks=chunks), reader).bind_tools([async_tool(1, [])])

    async def main() -> None:
        async for _ in model.astream("hi"):
            pass

    run_in_virtual_time(main)
    assert reader.read == [
        TextDelta("let me "),
        CallStarted(0, "look"),
        CallArgumentsDelta(0, '{"q": '),
        CallArgumentsDelta(0, '"a"}'),
        CallStarted(1, "look"),
        CallArgumentsDelta(1, '{"q": "b"}'),
    ]
    assert report_of(model).turns[0].drafts == 2
