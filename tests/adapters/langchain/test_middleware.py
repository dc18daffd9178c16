"""`SpeculationMiddleware` in front of and behind other middleware: the transcript of the plain agent."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    HumanInTheLoopMiddleware,
    ModelCallLimitMiddleware,
    ModelFallbackMiddleware,
    ModelRetryMiddleware,
    PIIMiddleware,
    SummarizationMiddleware,
    TodoListMiddleware,
    ToolCallLimitMiddleware,
    ToolRetryMiddleware,
)
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt

from agentrt import DraftRequest, SpeculationConfig, ToolCall, speculable
from agentrt.adapters.langchain import SpeculationMiddleware, allow_speculation, report_of, speculate
from agentrt.config import TurnAhead
from agentrt.errors import ConfigurationError
from agentrt.testing import ScriptedSpeculator, run_in_virtual_time
from tests.adapters.doubles import ScriptedChat, Silent
from tests.adapters.langchain.graphs import INPUT, THREE, async_tool, run, transcript

pytestmark = pytest.mark.usefixtures("prediction_is_free")

THREAD: Any = {"configurable": {"thread_id": "1"}, "recursion_limit": 60}
APPROVE: Any = Command(resume={"decisions": [{"type": "approve"}]})
REJECT: Any = Command(resume={"decisions": [{"type": "reject"}]})


def turn_after(history: Sequence[Any]) -> int:
    """Return the turn that follows the last result, which names its own: 0 without one."""
    contents = [str(each if isinstance(each, str) else each.content) for each in history]
    return next((int(text[7]) + 1 for text in reversed(contents) if text.startswith("found q")), 0)


class Chat(ScriptedChat):
    """Calls ``look`` with q0, q1 and q2, also if its history is summarised; request 1 of ``fails`` fails."""

    fails: int = 0
    requests: list[int] = []  # noqa: RUF012 - a field of pydantic, copied for each model

    def _begin(self, messages: list[BaseMessage]) -> AIMessage:
        turn = turn_after(messages)
        self.asked.append(turn)
        self.requests.append(turn)
        if self.fails and len(self.requests) % self.fails == 1 % self.fails:
            raise ConnectionError("no connection")
        if turn == len(THREE):
            return AIMessage("done", id=f"answer_{turn}")
        ((name, args),) = THREE[turn]
        call: Any = {"name": name, "args": args, "id": f"call_{turn}"}
        return AIMessage(f"turn {turn}", tool_calls=[call])


class Next:
    """Predicts the next call of :class:`Chat`, or another one in the ``wrong`` turns."""

    def __init__(self, wrong: Sequence[int] = ()) -> None:
        self._wrong = wrong

    async def drafts(self, request: DraftRequest) -> Any:
        await asyncio.sleep(1)
        turn = turn_after([message.get("content") or "" for message in request.messages])
        if turn < len(THREE):
            yield ToolCall("look", {"q": f"q{turn}" + "x" * (turn in self._wrong)})


def looking(runs: list[str], **options: Any) -> BaseTool:
    def look(q: str, limit: int = 3) -> str:
        """Look something up."""
        runs.append(q)
        return f"found {q} {limit}"

    async def alook(q: str, limit: int = 3) -> str:
        """Look something up."""
        runs.append(q)
        await asyncio.sleep(5)
        return f"found {q} {limit}"

    return speculable(StructuredTool.from_function(look, alook, name="look"), **options)


class AroundTools(AgentMiddleware[Any, Any, Any]):
    """Hands each call of a tool on, as :meth:`change` returns it."""

    def change(self, request: Any) -> Any:
        return request

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        return handler(self.change(request))

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        return await handler(self.change(request))


class AroundModels(AgentMiddleware[Any, Any, Any]):
    """Hands each request on, as :meth:`change` returns it."""

    def change(self, request: Any) -> Any:
        return request

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        return handler(self.change(request))

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        return await handler(self.change(request))


class Edits(AroundTools):
    """Changes each call before its tool runs."""

    def change(self, request: Any) -> Any:
        call = request.tool_call
        return request.override(tool_call={**call, "args": {**call["args"], "limit": 5}})


class Rejects(AgentMiddleware[Any, Any, Any]):
    """Answers in place of the tool."""

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        turn = request.tool_call["args"]["q"]
        return ToolMessage(f"found {turn} nowhere", tool_call_id=request.tool_call["id"])

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        return self.wrap_tool_call(request, handler)


class AnswersTwice(AgentMiddleware[Any, Any, Any]):
    """Asks the model twice, and takes the second answer with other arguments."""

    def _second(self, response: Any) -> Any:
        for message in response.result:
            for call in message.tool_calls:
                call["args"]["limit"] = 7
        return response

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        handler(request)
        return self._second(handler(request))

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        await handler(request)
        return self._second(await handler(request))


@allow_speculation
class Logs(AroundTools, AroundModels):
    """Only looks on, and says so."""


class Switches(AroundModels):
    """Gives every request to another model."""

    def __init__(self) -> None:
        super().__init__()
        self.model = Chat(delay=10)

    def change(self, request: Any) -> Any:
        return request.override(model=self.model)


class DropsCalls(AgentMiddleware[Any, Any, Any]):
    """Takes the third call out of the answer, behind the model."""

    def after_model(self, state: Any, runtime: Any) -> Any:
        last = state["messages"][-1]
        if [call["args"]["q"] for call in last.tool_calls] == ["q2"]:
            return {"messages": [AIMessage("enough", id=last.id)]}
        return None


def summarisation() -> AgentMiddleware[Any, Any, Any]:
    model = FakeListChatModel(responses=["a summary"])
    return SummarizationMiddleware(model, trigger=("messages", 4), keep=("messages", 2))


# Other middleware, how the model fails, and how many calls are claimed, in front of it and behind it.
OTHERS: dict[str, tuple[Callable[[], Any], int, tuple[int, int]]] = {
    "summarisation": (summarisation, 0, (3, 3)),
    "retries": (lambda: ModelRetryMiddleware(max_retries=2, initial_delay=0, jitter=False), 2, (3, 3)),
    "fallback": (lambda: ModelFallbackMiddleware(Chat(delay=10)), 1, (0, 3)),
    "tool limit": (lambda: ToolCallLimitMiddleware(run_limit=2, exit_behavior="end"), 0, (0, 0)),
    "limit of another tool": (lambda: ToolCallLimitMiddleware(tool_name="x", run_limit=2), 0, (3, 3)),
    "model limit": (lambda: ModelCallLimitMiddleware(run_limit=3), 0, (3, 3)),
    "tool retries": (lambda: ToolRetryMiddleware(initial_delay=0), 0, (3, 3)),
    "to-do list": (TodoListMiddleware, 0, (3, 3)),
    "personal data of the user": (lambda: PIIMiddleware("email"), 0, (3, 3)),
    "edits calls": (Edits, 0, (0, 0)),
    "rejects calls": (Rejects, 0, (0, 0)),
    "drops calls": (DropsCalls, 0, (0, 0)),
    "answers twice": (AnswersTwice, 0, (0, 0)),
    "logs": (Logs, 0, (3, 3)),
    "switches": (Switches, 0, (0, 0)),
}
MODES = ["sync", "async", "streamed", "async streamed"]


def play(
    mode: str, middleware: Sequence[Any], fails: int, runs: list[str], inputs: Sequence[Any] = (INPUT,)
) -> list[Any]:
    """Return the transcript of an agent with this middleware."""
    app = create_agent(
        Chat(delay=10, fails=fails), [looking(runs)], middleware=middleware, checkpointer=InMemorySaver()
    )

    async def main() -> None:
        for given in inputs:
            if mode == "async":
                await app.ainvoke(given, THREAD)
            else:
                async for _ in app.astream(given, THREAD, stream_mode="messages"):
                    pass

    if mode.startswith("async"):
        run_in_virtual_time(main)
    else:
        for given in inputs:
            if mode == "sync":
                app.invoke(given, THREAD)
            else:
                list(app.stream(given, THREAD, stream_mode="messages"))
    return transcript(app.get_state(THREAD).values["messages"])


@pytest.mark.matrix
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("position", [0, 1], ids=["in front", "behind"])
@pytest.mark.parametrize("wrong", [(), (1,)], ids=["right", "wrong"])
@pytest.mark.parametrize("kind", OTHERS)
def test_the_transcript_is_that_of_the_plain_agent(
    kind: str, position: int, wrong: Sequence[int], mode: str
) -> None:
    make, fails, claims = OTHERS[kind]
    plain = play(mode, [make()], fails, plain_runs := [])
    speculation, runs = SpeculationMiddleware(Next(wrong)), list[str]()
    middleware = [make()]
    middleware.insert(position, speculation)

    assert play(mode, middleware, fails, runs) == plain
    total = speculation.report().total
    if mode.startswith("async") and not wrong:
        assert total.claims == claims[position]
    assert bool(speculation.report().turns) == (position == 1 or kind != "switches")
    assert len(runs) == len(plain_runs) + total.wasted


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("position", [0, 1], ids=["in front", "behind"])
@pytest.mark.parametrize("answer", [APPROVE, REJECT], ids=["approved", "rejected"])
def test_no_tool_runs_before_a_person_has_approved_its_call(answer: Any, position: int, mode: str) -> None:
    inputs = [INPUT, answer]
    plain = play(mode, [HumanInTheLoopMiddleware({"look": True})], 0, plain_runs := [], inputs)
    runs: list[str] = []

    def reviewed() -> list[Any]:
        middleware: list[Any] = [HumanInTheLoopMiddleware({"look": True})]
        middleware.insert(position, SpeculationMiddleware(Next()))
        return middleware

    play(mode, paused := reviewed(), 0, runs)
    assert runs == []
    assert paused[position].report().total.wasted == 0
    assert play(mode, reviewed(), 0, runs, inputs) == plain
    assert runs == plain_runs


@pytest.mark.parametrize("position", [0, 1], ids=["in front", "behind"])
def test_no_tool_runs_before_an_interrupt_of_other_middleware(position: int) -> None:
    class Asks(AgentMiddleware[Any, Any, Any]):
        def after_model(self, state: Any, runtime: Any) -> Any:
            interrupt("may I?")

    runs: list[str] = []
    middleware: list[Any] = [Asks()]
    middleware.insert(position, SpeculationMiddleware(Next()))
    play("async", middleware, 0, runs)
    assert runs == []


def test_what_is_saved_is_what_speculate_saves() -> None:
    def seconds(model: Any, *middleware: Any) -> float:
        async def main() -> float:
            await create_agent(model, [async_tool(5, [])], middleware=middleware).ainvoke(INPUT)
            return asyncio.get_running_loop().time()

        return run_in_virtual_time(main)

    chat = Chat(delay=10)
    assert seconds(chat) == 4 * 10 + 3 * 5
    assert seconds(chat, SpeculationMiddleware(Next())) == seconds(speculate(chat, Next())) == 4 * 10


def test_requests_are_sent_ahead() -> None:
    class Mute(Silent, Chat):
        """Says nothing beside its calls."""

    speculation = SpeculationMiddleware(Next(), config=SpeculationConfig(turn_ahead=TurnAhead()))
    app = create_agent(Mute(delay=10), [async_tool(0, [])], middleware=[speculation])
    assert run(app)["messages"][-1].content == "done"
    assert speculation.report().ahead.kept > 0


# The models.


def test_a_model_that_speculates_already_is_left_as_it_is() -> None:
    speculation, model = SpeculationMiddleware(Next()), speculate(Chat(delay=10), Next())
    run(create_agent(model, [async_tool(5, [])], middleware=[speculation]))
    assert report_of(model).total.claims == 3
    assert speculation.report().turns == ()


def test_a_changed_model_is_copied_again() -> None:
    speculation, model = SpeculationMiddleware(Next()), Chat(delay=10)
    app = create_agent(model, [async_tool(5, [])], middleware=[speculation])

    async def main() -> float:
        await app.ainvoke(INPUT)
        before = asyncio.get_running_loop().time()
        model.delay = 20.0
        await app.ainvoke(INPUT)
        return asyncio.get_running_loop().time() - before

    assert run_in_virtual_time(main) == 4 * 20


def test_the_agent_keeps_its_own_model() -> None:
    model = Chat(delay=10)
    create_agent(model, [looking([])], middleware=[SpeculationMiddleware(Next())]).invoke(INPUT)
    assert type(model) is Chat


def test_one_middleware_serves_many_models() -> None:
    speculation = SpeculationMiddleware(Next())

    async def main() -> None:
        for _ in range(40):
            app = create_agent(Chat(delay=10), [async_tool(5, [])], middleware=[speculation])
            await app.ainvoke(INPUT)

    run_in_virtual_time(main)
    assert speculation.report().total.claims == 120
    assert len(speculation._copies) <= 16


def test_arguments_are_checked() -> None:
    with pytest.raises(ConfigurationError, match="at least one predictor"):
        SpeculationMiddleware([])
    with pytest.raises(ConfigurationError, match="samples"):
        SpeculationMiddleware(ScriptedSpeculator(), samples=0)


def test_a_deep_copy_reports_to_the_same_report() -> None:
    speculation = SpeculationMiddleware(Next())
    app = create_agent(Chat(), [looking([])], middleware=[copy.deepcopy(speculation)])
    app.invoke(INPUT)
    assert len(speculation.report().turns) == 4
