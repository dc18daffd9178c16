"""`speculate` on every path of an unchanged graph: same transcript, early tools, nothing twice."""

from __future__ import annotations

import asyncio
import copy
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import RunnableLambda
from langchain_core.runnables.config import var_child_runnable_config
from langchain_core.tools import BaseTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import Command, interrupt

from agentrt import SpeculationConfig, ToolCall, speculable
from agentrt.adapters.langchain import report_of, speculate
from agentrt.errors import ConfigurationError, NotSpeculableError
from agentrt.perfmodel import TurnTimes
from agentrt.testing import ScriptedSpeculator, run_in_virtual_time
from tests.adapters.doubles import Calls, Milestones, ScriptedChat

INPUT = {"messages": [("user", "hi")]}
THREE: list[Calls] = [[("look", {"q": f"q{turn}"})] for turn in range(3)]


def agent(model: Any, tools: Sequence[BaseTool]) -> Any:
    return create_agent(model, tools)


def hand_built(model: Any, tools: Sequence[BaseTool]) -> Any:
    bound = model.bind_tools(tools)

    def call(state: MessagesState) -> Any:
        return {"messages": [bound.invoke(state["messages"])]}

    async def acall(state: MessagesState) -> Any:
        return {"messages": [await bound.ainvoke(state["messages"])]}

    graph = StateGraph(MessagesState).add_node("agent", RunnableLambda(call, afunc=acall))
    graph.add_node("tools", ToolNode(tools)).add_edge(START, "agent").add_edge("tools", "agent")
    return graph.add_conditional_edges("agent", tools_condition).compile()


def drive(app: Any, streamed: bool) -> list[BaseMessage]:
    if not streamed:
        messages: list[BaseMessage] = app.invoke(INPUT)["messages"]
        return messages
    return list(app.stream(INPUT, stream_mode="values"))[-1]["messages"]  # type: ignore[no-any-return]


async def adrive(app: Any, streamed: bool) -> list[BaseMessage]:
    if not streamed:
        return (await app.ainvoke(INPUT))["messages"]  # type: ignore[no-any-return]
    last: Any = None
    async for kind, part in app.astream(INPUT, stream_mode=["messages", "values"]):
        last = part if kind == "values" else last
    return last["messages"]  # type: ignore[no-any-return]


def transcript(messages: Sequence[BaseMessage]) -> list[Any]:
    return [
        (m.type, m.content, [(c["name"], c["args"], c["id"]) for c in getattr(m, "tool_calls", [])])
        for m in messages
    ]


def async_tool(seconds: float, runs: list[str]) -> BaseTool:
    @speculable
    @tool
    async def look(q: str, limit: int = 3) -> str:
        """Look something up."""
        runs.append(q)
        await asyncio.sleep(seconds)
        return f"found {q} {limit}"

    return look


def sync_tool(runs: list[str], milestones: Milestones) -> BaseTool:
    @speculable
    @tool
    def look(q: str, limit: int = 3) -> str:
        """Look something up."""
        runs.append(q)
        milestones.reach(f"started {q}")
        return f"found {q} {limit}"

    return look


BUILDERS: list[Callable[..., Any]] = [agent, hand_built]


@pytest.mark.parametrize("build", BUILDERS)
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("wrong", [frozenset(), frozenset({1}), frozenset({0, 1, 2})])
def test_an_async_graph_takes_what_equation_1_says_and_says_the_same(
    build: Callable[..., Any], streamed: bool, wrong: frozenset[int]
) -> None:
    times = TurnTimes(generation=40, draft=5, tool=30)

    def guess(turn: int) -> list[ToolCall]:
        return [ToolCall("look", {"q": f"q{turn}" + "x" * (turn in wrong), "limit": 3})]

    async def run(speculative: bool) -> tuple[list[Any], float, list[str]]:
        runs: list[str] = []
        model: Any = ScriptedChat(script=THREE, delay=times.generation)
        if speculative:
            model = speculate(model, ScriptedSpeculator(*map(guess, range(3)), delay=times.draft))
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

    def gate(turn: int) -> None:  # the model answers only once the guessed tool has started
        if turn < 3:
            milestones.wait(f"started q{turn}")

    draft = ScriptedChat(script=THREE, prefix="draft")
    model = speculate(ScriptedChat(script=THREE, gate=gate), draft)
    assert transcript(drive(build(model, [look]), streamed)) == transcript(plain)
    assert runs == ["q0", "q1", "q2"]
    assert report_of(model).total.claims == 3
    assert report_of(model).total.wasted == 0


def test_a_sync_tool_in_an_async_graph_runs_early_in_a_thread() -> None:
    milestones, runs = Milestones(), list[str]()

    class Waiting(ScriptedChat):
        async def _agenerate(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
            result = await super()._agenerate(messages, *args, **kwargs)
            if self.asked[-1] < 3:
                await asyncio.to_thread(milestones.wait, f"started q{self.asked[-1]}")
            return result

    model = speculate(Waiting(script=THREE), ScriptedChat(script=THREE))
    asyncio.run(adrive(agent(model, [sync_tool(runs, milestones)]), False))
    assert runs == ["q0", "q1", "q2"]
    assert report_of(model).total.claims == 3


def test_parallel_calls_are_claimed_one_by_one() -> None:
    calls = [("look", {"q": q}) for q in "abc"]
    runs: list[str] = []

    async def main() -> float:
        predictor = ScriptedSpeculator([ToolCall(name, args) for name, args in calls[:2]], delay=1)
        model = speculate(ScriptedChat(script=[calls], delay=10), predictor)
        messages = await adrive(agent(model, [async_tool(9, runs)]), False)
        assert [m.content for m in messages if m.type == "tool"] == [f"found {q} 3" for q in "abc"]
        total = report_of(model).total
        assert (total.claims, total.misses) == (2, 1)
        return asyncio.get_running_loop().time()

    assert run_in_virtual_time(main) == 10 + 9 + 10
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


# Nothing twice.


class Tracer(BaseCallbackHandler):
    """Counts what a user's callbacks see."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def on_chat_model_start(self, serialized: Any, messages: Any, **kwargs: Any) -> None:
        self.seen.append("model")

    def on_llm_new_token(self, token: str, **kwargs: Any) -> None:
        self.seen.append(f"token {token}")

    def on_llm_end(self, response: Any, **kwargs: Any) -> None:
        self.seen.append("model end")

    def on_tool_start(self, serialized: Any, input_str: str, **kwargs: Any) -> None:
        self.seen.append(f"tool {input_str}")

    def on_tool_end(self, output: Any, **kwargs: Any) -> None:
        self.seen.append("tool end")


@pytest.mark.parametrize("streamed", [False, True])
def test_callbacks_and_streams_see_what_they_see_without_speculation(streamed: bool) -> None:
    def run(speculative: bool) -> tuple[list[str], list[Any]]:
        tracer, tokens = Tracer(), []

        async def main() -> None:
            model: Any = ScriptedChat(script=THREE, delay=5)
            if speculative:
                model = speculate(model, ScriptedChat(script=THREE, prefix="draft", delay=1))
            app = agent(model, [async_tool(3, [])])
            if streamed:
                async for message, _ in app.astream(INPUT, {"callbacks": [tracer]}, stream_mode="messages"):
                    tokens.append((message.type, message.content, getattr(message, "tool_call_chunks", None)))
            else:
                async for event in app.astream_events(INPUT, {"callbacks": [tracer]}, version="v2"):
                    tokens.append((event["event"], event["name"]))

        run_in_virtual_time(main)
        return tracer.seen, tokens

    assert run(True) == run(False)


def test_an_early_run_does_not_see_the_users_callbacks() -> None:
    configs: list[Any] = []

    @speculable
    @tool
    async def look(q: str) -> str:
        """Look something up."""
        configs.append(var_child_runnable_config.get())
        await asyncio.sleep(1)
        return q

    async def main() -> None:
        model = speculate(ScriptedChat(script=THREE[:1], delay=5), ScriptedChat(script=THREE[:1]))
        await adrive(agent(model, [look]), False)

    run_in_virtual_time(main)
    assert configs == [None]


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


# What may go wrong.


def test_a_predictor_that_fails_or_hangs_is_not_noticed() -> None:
    class Broken(ScriptedChat):
        async def _agenerate(self, *args: Any, **kwargs: Any) -> Any:
            raise ConnectionError("refused")

    async def main() -> float:
        hanging = ScriptedChat(script=THREE, delay=10**6)
        model = speculate(ScriptedChat(script=THREE, delay=10), [Broken(), hanging])
        messages = await adrive(agent(model, [async_tool(7, [])]), False)
        assert messages[-1].content == "done"
        assert report_of(model).turns[0].problems == ("Broken failed: ConnectionError",)
        return asyncio.get_running_loop().time()

    assert run_in_virtual_time(main) == 3 * 17 + 10


def test_one_of_several_predictors_is_enough() -> None:
    async def main() -> float:
        predictors = [ScriptedSpeculator([OSError()]), ScriptedChat(script=THREE[:1], delay=1)]
        model = speculate(ScriptedChat(script=THREE[:1], delay=10), predictors, samples=2)
        await adrive(agent(model, [async_tool(9, [])]), False)
        assert report_of(model).turns[0].drafts == 2
        return asyncio.get_running_loop().time()

    assert run_in_virtual_time(main) == 10 + 10


def test_arguments_edited_by_a_person_run_for_real_under_a_checkpointer() -> None:
    runs: list[str] = []
    look = async_tool(1, runs)
    predictor = ScriptedSpeculator([ToolCall("look", {"q": "q0"})])
    bound = speculate(ScriptedChat(script=THREE[:1], delay=5), predictor).bind_tools([look])

    async def ask(state: MessagesState) -> Any:
        return {"messages": [await bound.ainvoke(state["messages"])]}

    async def review(state: MessagesState) -> Any:
        message = state["messages"][-1]
        assert isinstance(message, AIMessage)
        edited = interrupt("may I?")
        calls = [{**message.tool_calls[0], "args": edited}]
        return {"messages": [message.model_copy(update={"tool_calls": calls})]}

    graph = StateGraph(MessagesState).add_node(ask).add_node(review).add_node("tools", ToolNode([look]))
    graph.add_edge(START, "ask").add_edge("ask", "review").add_edge("review", "tools")
    app = graph.compile(checkpointer=InMemorySaver())

    async def main() -> str:
        config = {"configurable": {"thread_id": "1"}}
        await app.ainvoke(INPUT, config)
        done = await app.ainvoke(Command(resume={"q": "edited"}), config)
        return str(done["messages"][-1].content)

    assert run_in_virtual_time(main) == "found edited 3"
    assert runs == ["q0", "edited"]
    assert report_of(bound).turns[0].calls[0].reason == "the arguments were edited"


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_stream_that_is_left_early_discards_its_speculations(asynchronous: bool) -> None:
    milestones = Milestones()
    look = sync_tool([], milestones)
    model = speculate(
        ScriptedChat(script=THREE, gate=lambda turn: milestones.wait("started q0")),
        ScriptedChat(script=THREE),
    )
    bound = model.bind_tools([look])

    async def leave() -> None:
        chunks = bound.astream("hi")
        await anext(chunks)
        await asyncio.to_thread(milestones.wait, "started q0")
        await chunks.aclose()  # type: ignore[attr-defined]

    if asynchronous:
        asyncio.run(leave())
    else:
        chunks = bound.stream("hi")
        next(chunks)
        chunks.close()  # type: ignore[attr-defined]
    (turn,) = report_of(model).turns
    assert (turn.wasted, turn.generation_s) == (1, None)


def test_a_tool_called_on_the_loops_own_thread_does_not_wait() -> None:
    release = threading.Event()

    @speculable
    @tool
    def look(q: str) -> str:
        """Look something up."""
        if threading.current_thread() is not threading.main_thread():
            release.wait()
        return f"found {q}"

    async def main() -> str:
        model = speculate(ScriptedChat(script=THREE, delay=0.05), ScriptedChat(script=THREE)).bind_tools(
            [look]
        )
        answer = await model.ainvoke("hi")
        result = look.invoke(
            {**answer.tool_calls[0], "type": "tool_call"}
        )  # blocks the loop: the user's choice
        assert report_of(model).turns[0].calls[0].reason == "waiting for it would have blocked an event loop"
        return str(result.content)

    try:
        assert asyncio.run(main()) == "found q0"
    finally:
        release.set()


def test_wrong_use_is_told() -> None:
    plain = ScriptedChat()
    with pytest.raises(ConfigurationError, match="bind_tools"):
        speculate(plain.bind_tools([]), plain)
    with pytest.raises(ConfigurationError, match="at least one predictor"):
        speculate(plain, [])
    with pytest.raises(ConfigurationError, match="at least one predictor and one sample"):
        speculate(plain, plain, samples=0)
    with pytest.raises(ConfigurationError, match="speculate"):
        report_of(plain)

    @speculable
    def look(q: str) -> str:
        """Look something up."""
        return q

    @tool
    @speculable
    async def alook(q: str) -> str:
        """Look something up."""
        return q

    for wrong in (look, tool(look), alook):
        with pytest.raises(NotSpeculableError, match="above @tool"):
            speculate(plain, plain).bind_tools([wrong])
        with pytest.raises(NotSpeculableError, match="above @tool"):
            create_agent(speculate(plain, plain), [wrong]).invoke(INPUT)


def test_the_bound_of_early_runs_holds() -> None:
    runs: list[str] = []

    async def main() -> None:
        guesses = [ToolCall("look", {"q": str(number)}) for number in range(9)]
        model = speculate(
            ScriptedChat(delay=5), ScriptedSpeculator(guesses), config=SpeculationConfig(max_speculations=2)
        )
        await model.bind_tools([async_tool(1, runs)]).ainvoke("hi")

    run_in_virtual_time(main)
    assert runs == ["0", "1"]
