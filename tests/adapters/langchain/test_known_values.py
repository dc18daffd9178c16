"""Tools that read what is fixed for a LangGraph run: its context, and what the user has configured."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import dataclasses
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from langchain.tools import ToolRuntime
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, InjectedToolCallId, tool
from langgraph.graph import MessagesState
from langgraph.prebuilt import InjectedState, InjectedStore
from langgraph.runtime import Runtime

from agentrt import ToolCall, speculable
from agentrt.adapters.langchain import report_of, speculate
from agentrt.adapters.langchain.tools.injected_arguments import InjectedArguments, stand_ins
from agentrt.adapters.langchain.tools.known_values import ReadArguments
from agentrt.errors import ConfigurationError, NotSpeculableError, SpeculationError
from agentrt.testing import ScriptedSpeculator, run_in_virtual_time
from agentrt.tools.real_call import speculative_run
from tests.adapters.doubles import Milestones, ScriptedChat
from tests.adapters.langchain import graphs
from tests.adapters.langchain.graphs import INPUT, LOOK, ran, ran_plain

pytestmark = pytest.mark.usefixtures("prediction_is_free")


@dataclass
class Context:
    user: str


agent: Any = functools.partial(graphs.agent, schema=Context)
hand_built: Any = functools.partial(graphs.hand_built, schema=Context)
builders = pytest.mark.parametrize("build", [agent, hand_built], ids=["agent", "hand built"])
ANN: Any = {"build": agent, "context": Context("ann")}


def context_tool(given: list[Any]) -> BaseTool:
    @speculable(reads=["context"])
    @tool
    async def look(q: str, runtime: ToolRuntime[Context, Any]) -> str:
        """Look."""
        given.append(runtime)
        return f"found {q} for {runtime.context.user}"

    return look


def runtime_with(context: Any) -> Any:
    given: Any = {"state": {}, "config": {}, "stream_writer": print, "tool_call_id": "1", "store": None}
    return ToolRuntime(context=context, **given)


@builders
def test_a_tool_that_reads_the_context_claims(build: Any) -> None:
    given: list[Any] = []
    look = context_tool(given)
    messages, report = ran(look, build=build, context=Context("ann"))
    assert (len(given), report.total.claims) == (1, 1)
    assert isinstance(given[0], ToolRuntime)
    assert messages == ran_plain(look, **ANN)
    assert "found a for ann" in str(messages)


@builders
def test_a_sync_tool_that_reads_the_context_claims(build: Any) -> None:
    runs: list[str] = []
    milestones = Milestones()

    @speculable(reads=["context"])
    @tool
    def look(q: str, runtime: ToolRuntime[Context, Any]) -> str:
        """Look."""
        runs.append(q)
        milestones.reach("started")
        return f"found {q} for {runtime.context.user}"

    chat = ScriptedChat(script=[[LOOK]], gate=lambda turn: milestones.wait("started"))
    model = speculate(chat, ScriptedSpeculator([ToolCall(*LOOK)]))
    messages = build(model, [look]).invoke(INPUT, context=Context("ann"))["messages"]
    assert "found a for ann" in str(messages)
    assert (runs, report_of(model).total.claims) == (["a"], 1)


def test_runs_at_one_time_have_each_their_context() -> None:
    given: list[Any] = []
    look = context_tool(given)
    model = speculate(
        ScriptedChat(script=[[LOOK]], delay=10), ScriptedSpeculator(*[[ToolCall(*LOOK)]] * 3, delay=1)
    )
    app = agent(model, [look])

    async def main() -> list[Any]:
        users = ("bob", "cid", "ann")
        return await asyncio.gather(*(app.ainvoke(INPUT, context=Context(user)) for user in users))

    for user, state in zip(("bob", "cid", "ann"), run_in_virtual_time(main), strict=True):
        assert f"found a for {user}" in str(state["messages"])
    assert (len(given), report_of(model).total.claims) == (3, 3)


def test_a_context_that_has_no_schema_is_known_too() -> None:
    @speculable(reads=["context"])
    @tool
    async def look(q: str, runtime: ToolRuntime) -> str:
        """Look."""
        return f"found {q} for {runtime.context}"

    messages, report = ran(look)
    assert "found a for None" in str(messages)
    assert report.total.claims == 1


class Odd(Context):
    def __eq__(self, other: object) -> bool:
        raise KeyboardInterrupt


@pytest.mark.parametrize("context", [Context("ann"), Context("eve"), Odd("eve")])
def test_the_context_of_the_call_must_equal_that_of_the_speculation(context: Context) -> None:
    given: list[Any] = []
    look = context_tool(given)

    async def run_tools(state: MessagesState) -> Any:
        (call,) = state["messages"][-1].tool_calls  # type: ignore[union-attr]
        arguments = {**call["args"], "runtime": runtime_with(context)}
        return {"messages": [await look.ainvoke({**call, "args": arguments})]}

    build = functools.partial(hand_built, node=run_tools)
    messages, report = ran(look, build=build, context=Context("ann"))
    assert f"found a for {context.user}" in str(messages)
    if context.user == "ann":
        assert (report.total.claims, len(given)) == (1, 1)
    else:
        assert (report.total.claims, len(given)) == (0, 2)
        (call,) = report.turns[0].calls
        assert call.reason == "the context or configuration that the tool reads was another"


def swallowed(runtime: Any) -> Any:
    try:
        return runtime.state
    except Exception:  # noqa: BLE001 - as tools do
        return "anonymous"


OTHER_USES: dict[str, Callable[[Any], Any]] = {
    "runtime.state": lambda runtime: len(runtime.state),
    "runtime.store": lambda runtime: runtime.store,
    "runtime.tool_call_id": lambda runtime: runtime.tool_call_id,
    "runtime.stream_writer": lambda runtime: runtime.stream_writer("half"),
    "runtime.config": lambda runtime: sorted(runtime.config["metadata"])[:0],
    "runtime.emit_output_delta": lambda runtime: runtime.emit_output_delta("half"),
    "runtime.execution_info": lambda runtime: runtime.execution_info is None,
    "settings['tags']": lambda config: config.get("tags", ()) and "",
    "settings['metadata']": lambda config: config["metadata"] and "",
    "settings['configurable']['checkpoint_ns']": lambda it: it["configurable"]["checkpoint_ns"] and "",
    "settings['configurable']['__pregel_send']": lambda it: "__pregel_send" in it["configurable"] and "",
    "settings": lambda config: dict(config) and "",
    "settings['configurable']": lambda config: list(config["configurable"]) and "",
}


@pytest.mark.parametrize("name", OTHER_USES)
def test_a_speculation_that_uses_more_than_what_is_known_is_a_miss(name: str) -> None:
    @speculable(reads=["context"])
    @tool("look")
    async def of_runtime(q: str, runtime: ToolRuntime[Context, Any]) -> str:
        """Look."""
        return f"found {OTHER_USES[name](runtime)} for {runtime.context.user}"

    @speculable(reads=["configurable"])
    @tool("look")
    async def of_config(q: str, settings: RunnableConfig) -> str:
        """Look."""
        return f"found {OTHER_USES[name](settings)}"

    look = of_runtime if name.startswith("runtime") else of_config
    config = {"configurable": {"tone": "loud"}}
    messages, report = ran(look, config=config, **ANN)
    assert messages == ran_plain(look, config=config, **ANN)
    assert (report.total.claims, report.total.misses) == (0, 1)
    assert report.turns[0].calls[0].reason == (
        f"the speculation failed: look uses {name}, which belongs to the real call. It runs when the model "
        "calls it."
    )


HIDDEN_USES: list[Callable[[Any], Any]] = [
    *(swallowed, repr, str, copy.copy, copy.deepcopy, vars, dataclasses.asdict),
    *(lambda it: dataclasses.replace(it, state={}), lambda it: it == copy.copy(it)),
]


@pytest.mark.parametrize("use", HIDDEN_USES)
def test_a_use_of_the_whole_runtime_fails_the_run_also_if_its_error_is_swallowed(
    use: Callable[[Any], Any],
) -> None:
    read = ReadArguments(frozenset({"context"}), frozenset({"runtime"}), ToolRuntime)
    with (
        pytest.raises(SpeculationError, match="look uses runtime"),
        speculative_run("look"),
        contextlib.suppress(Exception),
    ):
        use(stand_ins(InjectedArguments(frozenset({"runtime"}), read=read))["runtime"])


def configured(config: Any) -> str:
    users = config["configurable"]
    assert "tone" in users
    assert "pitch" not in users
    return f"{users['tone']} {users.get('pitch', 'low')} {config.get('configurable')['thread_id']}"


@speculable(reads=["configurable"])
@tool
async def look_by_runtime(q: str, runtime: ToolRuntime[Context, Any]) -> str:
    """Look."""
    return configured(runtime.config)


@speculable(reads=["configurable"])
@tool
async def look_by_config(q: str, settings: RunnableConfig) -> str:
    """Look."""
    return configured(settings)


class Looking(BaseTool):
    name: str = "look"
    description: str = "Look."

    def _run(self, q: str, config: RunnableConfig) -> str:
        return configured(config)

    async def _arun(self, q: str, config: RunnableConfig) -> str:
        return configured(config)


BY_CONFIG = [look_by_runtime, look_by_config, speculable(Looking(), reads={"configurable"})]


@pytest.mark.parametrize("look", BY_CONFIG)
@builders
def test_a_tool_that_reads_what_the_user_has_configured_claims(look: BaseTool, build: Any) -> None:
    look = look.model_copy(update={"name": "look"})
    run: Any = {"config": {"configurable": {"tone": "loud", "thread_id": "7"}}, "context": Context("ann")}
    messages, report = ran(look, build=build, **run)
    assert report.total.claims == 1
    assert messages == ran_plain(look, build=agent, **run)
    assert "loud low 7" in str(messages)


def test_a_configuration_that_differs_at_the_call_is_a_miss() -> None:
    runs: list[str] = []

    @speculable(reads=["configurable"])
    @tool
    async def look(q: str, config: RunnableConfig) -> str:
        """Look."""
        runs.append(config["configurable"]["tone"])
        return runs[-1]

    async def run_tools(state: MessagesState) -> Any:
        (call,) = state["messages"][-1].tool_calls  # type: ignore[union-attr]
        return {"messages": [await look.ainvoke(call, {"configurable": {"tone": "soft"}})]}

    build = functools.partial(hand_built, node=run_tools)
    messages, report = ran(look, build=build, config={"configurable": {"tone": "loud"}})
    assert (runs, report.total.claims) == (["loud", "soft"], 0)
    assert "soft" in str(messages)


def test_calls_of_the_function_claim() -> None:
    given: list[Any] = []
    look: Any = context_tool(given)

    async def run_tools(state: MessagesState, runtime: Runtime[Context]) -> Any:
        (call,) = state["messages"][-1].tool_calls  # type: ignore[union-attr]
        found = await look.coroutine(**call["args"], runtime=runtime_with(runtime.context))
        return {"messages": [{"role": "tool", "content": found, "tool_call_id": call["id"]}]}

    build = functools.partial(hand_built, node=run_tools)
    messages, report = ran(look, build=build, context=Context("ann"))
    assert "found a for ann" in str(messages)
    assert (len(given), report.total.claims) == (1, 1)


@tool
def with_callbacks(q: str, config: RunnableConfig, callbacks: Any) -> str:
    """Look."""
    return q


NEEDED: dict[str, Any] = {
    "state": Annotated[Any, InjectedState],
    "store": Annotated[Any, InjectedStore()],
    "call id": Annotated[str, InjectedToolCallId],
}


@pytest.mark.parametrize("annotation", NEEDED.values(), ids=NEEDED)
def test_what_is_not_known_before_the_call_stays_refused(annotation: Any) -> None:
    def look(q: str, runtime: ToolRuntime[Context, Any], given: Any) -> str:
        """Look."""
        return q

    look.__annotations__["given"] = annotation
    for refused, named in ((tool(look), "given"), (with_callbacks, "callbacks")):
        with pytest.raises(NotSpeculableError, match=named):
            speculable(refused, reads=["context", "configurable"])


def plain(q: str) -> str:
    """Look."""
    return q


def test_reads_is_for_tools_that_take_a_runtime_or_a_configuration() -> None:
    for each in (plain, tool(plain)):
        with pytest.raises(NotSpeculableError, match="Leave out reads"):
            speculable(each, reads=["context"])
    with pytest.raises(NotSpeculableError, match=r"reads=\['configurable'\]"):
        speculable(tool(look_by_config.coroutine), reads=["context"])  # type: ignore[attr-defined]
    for wrong in ("context", ["state"]):
        with pytest.raises(ConfigurationError, match="reads"):
            speculable(plain, reads=wrong)  # type: ignore[call-overload]
