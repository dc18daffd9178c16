"""A speculation that uses an injected argument, or looks for the run around it, is a miss."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain.tools import ToolRuntime
from langchain_core.runnables import RunnableConfig, RunnableLambda, ensure_config
from langchain_core.tools import BaseTool, InjectedToolArg, InjectedToolCallId, StructuredTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_config, get_stream_writer
from langgraph.graph import MessagesState
from langgraph.prebuilt import InjectedState
from langgraph.types import Command, interrupt
from pydantic import BaseModel

from agentrt import SpeculationSession, ToolCall, speculable
from agentrt.adapters.langchain import report_of
from agentrt.adapters.langchain.tools.injected_arguments import InjectedArguments, stand_ins
from agentrt.errors import NotSpeculableError, SpeculationError
from agentrt.testing import ScriptedSpeculator, run_in_virtual_time
from agentrt.tools.real_call import speculative_run
from tests.adapters.doubles import Calls, ScriptedChat, Silent
from tests.adapters.langchain.graphs import (
    INPUT,
    LOOK,
    after_turn,
    in_line,
    ran,
    ran_plain,
    speculating,
    transcript,
)
from tests.patience import until

pytestmark = pytest.mark.usefixtures("prediction_is_free")

INJECTED = Annotated[Any, InjectedToolArg()]


def test_an_argument_that_the_tool_does_not_use_is_no_part_of_the_call() -> None:
    given: list[Any] = []

    @tool
    async def look(q: str, runtime: INJECTED = None) -> str:
        """Look."""
        given.append(runtime)
        return f"found {q}"

    messages, report = ran(speculable(look))
    assert (len(given), report.total.claims) == (1, 1)
    assert messages == ran_plain(look)
    assert isinstance(given[1], ToolRuntime), "the real call has it"


def swallowed(runtime: Any) -> Any:
    try:
        return runtime.tool_call_id
    except Exception:  # noqa: BLE001 - as tools do
        return "anonymous"


USES: dict[str, Callable[[Any], Any]] = {
    "an attribute": lambda runtime: runtime.tool_call_id,
    "an attribute, its error swallowed": swallowed,
    "whether it is None": lambda runtime: "anonymous" if runtime is None else runtime.tool_call_id,
    "its truth": lambda runtime: "known" if runtime else "anonymous",
    "its class": lambda runtime: "known" if isinstance(runtime, ToolRuntime) else "anonymous",
    "its text": lambda runtime: str(runtime)[:11],
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_speculation_that_uses_one_is_a_miss(use: Callable[[Any], Any]) -> None:
    @tool
    async def look(q: str, runtime: INJECTED = None) -> str:
        """Look."""
        return f"found {q} for {use(runtime)}"

    messages, report = ran(speculable(look))
    assert messages == ran_plain(look)
    assert "anonymous" not in str(messages)
    assert (report.total.claims, report.total.misses) == (0, 1)
    assert report.turns[0].calls[0].reason == (
        "the speculation failed: look uses runtime, which belongs to the real call. It runs when the model "
        "calls it."
    )


OPERATIONS: list[Callable[[Any], Any]] = [
    *(bool, len, iter, str, repr, hash, dir, copy.copy, copy.deepcopy, list, "{}".format),
    *(lambda it: it == 3, lambda it: it != 3, lambda it: it in [3], lambda it: 3 in it, lambda it: it[0]),
    *(lambda it: it(), lambda it: it.state, lambda it: setattr(it, "x", 1), lambda it: delattr(it, "x")),
    *(lambda it: it.__class__, lambda it: isinstance(it, dict), lambda it: hasattr(it, "x")),
]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_use_of_a_stand_in_fails_the_run(operation: Callable[[Any], Any]) -> None:
    with (
        pytest.raises(SpeculationError, match="look uses store"),
        speculative_run("look"),
        contextlib.suppress(Exception),
    ):
        operation(stand_ins(InjectedArguments(frozenset({"store"})))["store"])


def test_a_stand_in_can_be_handed_on() -> None:
    with speculative_run("look"):
        given = stand_ins(InjectedArguments(frozenset({"store"})))
        assert id(dataclasses.replace(Request(**given)).store) == id(given["store"])


@dataclasses.dataclass
class Request:
    store: Any


def test_a_sync_tool_is_speculated_on_with_a_stand_in_and_called_with_its_default() -> None:
    given: list[Any] = []

    @speculable
    @tool
    def look(q: str, limit: Annotated[int, InjectedToolArg] = 3) -> str:
        """Look."""
        given.append(limit)
        return q

    made = ToolCall("look", {"q": "a", "limit": 100}, "1")
    with SpeculationSession([look], ScriptedSpeculator([made])) as session:
        with session.turn([], []) as turn:
            until(lambda: bool(given))
            turn.bind([made])
        assert session.call(made) == "a"
        assert session.call(made) == "a"
        assert session.report().total.claims == 1
    assert len(given) == 2
    assert given[1] == 3


def test_guards_and_canonical_functions_do_not_see_them() -> None:
    seen: list[Any] = []

    def guard(arguments: Mapping[str, Any]) -> bool:
        seen.append(dict(arguments))
        return True

    def canonical(**arguments: Any) -> Any:
        seen.append(arguments)
        return arguments

    @speculable(guard=guard, canonical=canonical)
    @tool
    async def look(q: str, runtime: INJECTED = None) -> str:
        """Look."""
        return q

    _, report = ran(look)
    assert report.total.claims == 1
    assert all(each == {"q": "a"} for each in seen)


def test_calls_of_the_function_claim() -> None:
    runs: list[Any] = []

    async def look(runtime: INJECTED = None, **arguments: Any) -> str:
        runs.append(arguments)
        return f"found {arguments['q']}"

    schema = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}
    made = ToolCall("look", {"q": "a"})
    shown = speculable(StructuredTool(name="look", description="Look.", args_schema=schema, coroutine=look))

    async def main() -> None:
        async with after_turn(shown, [made]) as session:
            assert shown.coroutine is not None
            assert await shown.coroutine(runtime=object(), q="a") == "found a"
            assert session.report().total.claims == 1

    run_in_virtual_time(main)
    assert runs == [{"q": "a"}]


class WithId(BaseModel):
    q: str
    number: Annotated[str, InjectedToolCallId] = ""


def with_id(q: str, number: str) -> str:
    """Look."""
    return q


class Looking(BaseTool):
    name: str = "look"
    description: str = "Look."

    def _run(self, q: str, state: Annotated[Any, InjectedState]) -> str:
        return q


@tool
def with_runtime(q: str, runtime: INJECTED = None) -> str:
    """Look."""
    return q


@pytest.mark.parametrize(
    ("look", "options", "message"),
    [
        (StructuredTool.from_function(with_id, args_schema=WithId), {}, "number"),
        (Looking(), {}, r"\['state'\] without a default"),
        (with_runtime, {"prepare": print, "commit": print, "discard": print}, "prepare"),
    ],
    ids=["call id with a default", "no default", "preparation"],
)
def test_what_an_injected_argument_cannot_be_is_refused(look: BaseTool, options: Any, message: str) -> None:
    with pytest.raises(NotSpeculableError, match=message):
        speculable(look, **options)


# The run around the call, whatever a tool makes of it.

RUN: Any = {"configurable": {"thread_id": "1", "user": "ann"}}
SCRIPT: list[Calls] = [[LOOK]]


def looking(function: Callable[[str], str]) -> BaseTool:
    async def look(q: str) -> str:
        return function(q)

    return StructuredTool.from_function(coroutine=look, name="look", description="Look.")


def answered(app: Any) -> tuple[list[Any], bool]:
    """Run an app, with a person who approves; return its messages, and whether the person was asked."""

    async def main() -> tuple[list[Any], bool]:
        state = await app.ainvoke(INPUT, RUN)
        if asked := "__interrupt__" in state:
            state = await app.ainvoke(Command(resume={"decisions": [{"type": "approve"}]}), RUN)
        return transcript(state["messages"]), asked

    return run_in_virtual_time(main)


def claims_of_agent(function: Callable[[str], str]) -> int:
    """Return the claims of an agent whose tool is ``function``; it says the same without speculation."""
    look, model = looking(function), speculating(SCRIPT)
    fast = create_agent(model, [speculable(look)], checkpointer=InMemorySaver())
    plain = create_agent(Silent(script=SCRIPT, delay=10), [look], checkpointer=InMemorySaver())
    assert answered(fast) == answered(plain)
    return int(report_of(model).total.claims)


def claims_in_node(function: Callable[[str], str]) -> int:
    """Return the claims of a session in a node, whose tool is a plain function."""
    sessions: list[SpeculationSession] = []

    @speculable
    async def look(q: str) -> str:
        return function(q)

    def app(drafts: list[ToolCall]) -> Any:
        async def node(state: MessagesState) -> Any:
            async with after_turn(look, drafts, ToolCall(*LOOK)) as session:
                sessions.append(session)
                return {"messages": [("ai", await session.acall(ToolCall(*LOOK)))]}

        return in_line(node=node).compile(InMemorySaver())

    assert answered(app([ToolCall(*LOOK)])) == answered(app([]))
    return sum(session.report().total.claims for session in sessions)


ways = pytest.mark.parametrize("claims", [claims_of_agent, claims_in_node])


def written(q: str) -> str:
    with contextlib.suppress(RuntimeError):
        get_stream_writer()({"progress": q})
    return q


def by_get_config(q: str) -> str:
    try:
        return str(get_config()["configurable"]["user"])
    except (RuntimeError, KeyError):
        return "nobody"


def by_ensure_config(q: str) -> str:
    return str(ensure_config()["configurable"].get("user", "nobody"))


def of_inner(x: str, config: RunnableConfig) -> str:
    return str(config["configurable"].get("user", "nobody"))


def by_inner_runnable(q: str) -> str:
    return RunnableLambda(of_inner).invoke(q)


def asked(q: str) -> str:
    try:
        return str(interrupt(q))
    except RuntimeError:
        return "not asked"


@tool
def send(to: str) -> str:
    """Send."""
    return f"sent to {to}"


def by_agent(q: str) -> str:
    inner = create_agent(
        ScriptedChat(script=[[("send", {"to": "Ann"})]]),
        [send],
        middleware=[HumanInTheLoopMiddleware(interrupt_on={"send": True})],
    )
    return inner.invoke(INPUT)["messages"][-1].text


@ways
@pytest.mark.parametrize(
    "function", [written, by_get_config, by_ensure_config, by_inner_runnable, asked, by_agent]
)
def test_what_depends_on_the_run_is_not_claimed(claims: Any, function: Callable[[str], str]) -> None:
    assert claims(function) == 0


@ways
def test_a_runnable_that_does_not_look_for_the_run_is_claimed(claims: Any) -> None:
    shout = RunnableLambda(str.upper) | RunnableLambda(lambda text: text + "!")
    assert claims(shout.invoke) == 1


@pytest.mark.parametrize("entrance", ["invoke", "ainvoke", "run", "arun"])
def test_a_class_that_decides_before_its_tool_runs_is_refused(entrance: str) -> None:
    kind = type("Guarded", (StructuredTool,), {entrance: lambda self, *args, **options: interrupt("may I?")})
    guarded = kind(name="look", description="Look.", func=lambda q: q, args_schema=send.args_schema)
    with pytest.raises(NotSpeculableError, match=rf"Guarded has a method {entrance}\(\)"):
        speculable(guarded)
