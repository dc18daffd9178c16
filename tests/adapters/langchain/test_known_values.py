"""Tools that read what is fixed for a LangGraph run: its context, and what the user has configured."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from langchain.agents import create_agent
from langchain.tools import ToolRuntime
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langchain_core.tools import BaseTool, InjectedToolCallId, StructuredTool, tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState, InjectedStore, ToolNode, tools_condition
from langgraph.runtime import Runtime

from agentrt import ToolCall, speculable
from agentrt.adapters.langchain import report_of, speculate
from agentrt.adapters.langchain.tools.injected_arguments import InjectedArguments, stand_ins
from agentrt.adapters.langchain.tools.known_values import ReadArguments
from agentrt.errors import ConfigurationError, NotSpeculableError, SpeculationError
from agentrt.reports.report import SpeculationReport
from agentrt.testing import ScriptedSpeculator, run_in_virtual_time
from agentrt.tools.real_call import speculative_run
from tests.adapters.doubles import Milestones, ScriptedChat
from tests.adapters.langchain.graphs import INPUT, transcript

pytestmark = pytest.mark.usefixtures("prediction_is_free")

LOOK = ("look", {"q": "a"})


@dataclass
class Context:
    user: str


def agent(model: Any, tools: Any) -> Any:
    return create_agent(model, tools, context_schema=Context)


def hand_built(model: Any, tools: Any, node: Any = None) -> Any:
    bound = model.bind_tools(tools)

    def call(state: MessagesState) -> Any:
        return {"messages": [bound.invoke(state["messages"])]}

    async def acall(state: MessagesState) -> Any:
        return {"messages": [await bound.ainvoke(state["messages"])]}

    graph = StateGraph(MessagesState, context_schema=Context)
    graph.add_node("agent", RunnableLambda(call, afunc=acall)).add_node("tools", node or ToolNode(tools))
    graph.add_edge(START, "agent").add_edge("tools", "agent")
    return graph.add_conditional_edges("agent", tools_condition).compile()


Ran = tuple[list[Any], SpeculationReport]


def ran(look: BaseTool, build: Any = agent, users: Any = ("ann",), **config: Any) -> Ran:
    """Let an agent make the predicted call of ``look`` for each of ``users`` at once; return the last one's
    messages, and the report.
    """

    async def main() -> Ran:
        predictor = ScriptedSpeculator(*([ToolCall(*LOOK)] for _ in users), delay=1)
        model = speculate(ScriptedChat(script=[[LOOK]], delay=10), predictor)
        app = build(model, [look])
        runs = [app.ainvoke(INPUT, config, context=Context(user)) for user in users]
        return [transcript(each["messages"]) for each in await asyncio.gather(*runs)], report_of(model)

    messages, report = run_in_virtual_time(main)
    return messages[-1], report


def without_speculation(look: BaseTool, **config: Any) -> list[Any]:
    async def main() -> list[Any]:
        app = agent(ScriptedChat(script=[[LOOK]], delay=10), [look])
        return transcript((await app.ainvoke(INPUT, config, context=Context("ann")))["messages"])

    return run_in_virtual_time(main)


def context_tool(given: list[Any], **options: Any) -> BaseTool:
    @speculable(**({"reads": ["context"]} | options))
    @tool
    async def look(q: str, runtime: ToolRuntime[Context, Any]) -> str:
        """Look."""
        given.append(runtime)
        return f"found {q} for {runtime.context.user}"

    return look


@pytest.mark.parametrize("build", [agent, hand_built])
def test_a_tool_that_reads_the_context_claims(build: Any) -> None:
    given: list[Any] = []
    look = context_tool(given)
    messages, report = ran(look, build)
    assert (len(given), report.total.claims) == (1, 1)
    assert isinstance(given[0], ToolRuntime)
    assert messages == without_speculation(look)
    assert "found a for ann" in str(messages)


@pytest.mark.parametrize("build", [agent, hand_built])
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
    messages, report = ran(context_tool(given), users=("bob", "cid", "ann"))
    assert "found a for ann" in str(messages)
    assert (len(given), report.total.claims) == (3, 3)


def test_a_context_that_has_no_schema_is_known_too() -> None:
    @speculable(reads=["context"])
    @tool
    async def look(q: str, runtime: ToolRuntime) -> str:
        """Look."""
        return f"found {q} for {runtime.context}"

    async def main() -> tuple[str, int]:
        model = speculate(ScriptedChat(script=[[LOOK]], delay=10), ScriptedSpeculator([ToolCall(*LOOK)]))
        messages = (await create_agent(model, [look]).ainvoke(INPUT))["messages"]
        return str(messages), report_of(model).total.claims

    messages, claims = run_in_virtual_time(main)
    assert "found a for None" in messages
    assert claims == 1


@pytest.mark.parametrize("equal", [True, False])
def test_the_context_of_the_call_must_equal_that_of_the_speculation(equal: bool) -> None:
    given: list[Any] = []
    look = context_tool(given)
    user = "ann" if equal else "eve"

    async def run_tools(state: MessagesState) -> Any:
        (call,) = state["messages"][-1].tool_calls  # type: ignore[union-attr]
        runtime = ToolRuntime(
            state=state, context=Context(user), config={}, stream_writer=print, tool_call_id="1", store=None
        )
        return {"messages": [await look.ainvoke({**call, "args": {**call["args"], "runtime": runtime}})]}

    messages, report = ran(look, lambda model, tools: hand_built(model, tools, run_tools))
    assert f"found a for {user}" in str(messages)
    assert (report.total.claims, len(given)) == ((1, 1) if equal else (0, 2))
    if not equal:
        assert (
            report.turns[0].calls[0].reason == "the context or configuration that the tool reads was another"
        )


def test_a_context_that_cannot_be_compared_is_another() -> None:
    class Odd(Context):
        def __eq__(self, other: object) -> bool:
            raise SystemExit

    look = context_tool([])

    async def run_tools(state: MessagesState) -> Any:
        (call,) = state["messages"][-1].tool_calls  # type: ignore[union-attr]
        runtime = ToolRuntime(
            state=state, context=Odd("eve"), config={}, stream_writer=print, tool_call_id="1", store=None
        )
        return {"messages": [await look.ainvoke({**call, "args": {**call["args"], "runtime": runtime}})]}

    messages, report = ran(look, lambda model, tools: hand_built(model, tools, run_tools))
    assert "found a for eve" in str(messages)
    assert report.total.claims == 0


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
}


@pytest.mark.parametrize("name", OTHER_USES)
def test_a_speculation_that_uses_more_of_the_runtime_is_a_miss(name: str) -> None:
    @speculable(reads=["context"])
    @tool
    async def look(q: str, runtime: ToolRuntime[Context, Any]) -> str:
        """Look."""
        return f"found {OTHER_USES[name](runtime)} for {runtime.context.user}"

    messages, report = ran(look)
    assert messages == without_speculation(look)
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
@pytest.mark.parametrize("build", [agent, hand_built])
def test_a_tool_that_reads_what_the_user_has_configured_claims(look: BaseTool, build: Any) -> None:
    look = look.model_copy(update={"name": "look"})
    config = {"tone": "loud", "thread_id": "7"}
    messages, report = ran(look, build, configurable=config)
    assert report.total.claims == 1
    assert messages == without_speculation(look, configurable=config)
    assert "loud low 7" in str(messages)


OTHER_ENTRIES: dict[str, Callable[[Any], Any]] = {
    "settings['tags']": lambda config: config.get("tags", ()) and "",
    "settings['metadata']": lambda config: config["metadata"] and "",
    "settings['configurable']['checkpoint_ns']": lambda it: it["configurable"]["checkpoint_ns"] and "",
    "settings['configurable']['__pregel_send']": lambda it: "__pregel_send" in it["configurable"] and "",
    "settings": lambda config: dict(config) and "",
    "settings['configurable']": lambda config: list(config["configurable"]) and "",
}


@pytest.mark.parametrize("name", OTHER_ENTRIES)
def test_a_speculation_that_reads_more_of_the_configuration_is_a_miss(name: str) -> None:
    @speculable(reads=["configurable"])
    @tool
    async def look(q: str, settings: RunnableConfig) -> str:
        """Look."""
        return f"found{OTHER_ENTRIES[name](settings)}"

    messages, report = ran(look, configurable={"tone": "loud"})
    assert "found" in str(messages)
    assert report.total.claims == 0
    assert f"look uses {name}, which" in report.turns[0].calls[0].reason


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

    messages, report = ran(
        look, lambda model, tools: hand_built(model, tools, run_tools), configurable={"tone": "loud"}
    )
    assert (runs, report.total.claims) == (["loud", "soft"], 0)
    assert "soft" in str(messages)


def test_calls_of_the_function_claim() -> None:
    given: list[Any] = []
    look = context_tool(given)
    assert isinstance(look, StructuredTool)

    async def run_tools(state: MessagesState, runtime: Runtime[Context]) -> Any:
        (call,) = state["messages"][-1].tool_calls  # type: ignore[union-attr]
        own = ToolRuntime(
            state={}, context=runtime.context, config={}, stream_writer=print, tool_call_id=None, store=None
        )
        assert look.coroutine is not None
        found = await look.coroutine(**call["args"], runtime=own)
        return {"messages": [{"role": "tool", "content": found, "tool_call_id": call["id"]}]}

    messages, report = ran(look, lambda model, tools: hand_built(model, tools, run_tools))
    assert "found a for ann" in str(messages)
    assert (len(given), report.total.claims) == (1, 1)


def with_state(q: str, runtime: ToolRuntime[Context, Any], state: Annotated[Any, InjectedState]) -> str:
    """Look."""
    return q


def with_store(q: str, runtime: ToolRuntime[Context, Any], store: Annotated[Any, InjectedStore()]) -> str:
    """Look."""
    return q


def with_id(q: str, runtime: ToolRuntime[Context, Any], number: Annotated[str, InjectedToolCallId]) -> str:
    """Look."""
    return q


def with_callbacks(q: str, config: RunnableConfig, callbacks: Any) -> str:
    """Look."""
    return q


@pytest.mark.parametrize(
    ("function", "named"),
    [(with_state, "state"), (with_store, "store"), (with_id, "number"), (with_callbacks, "callbacks")],
)
def test_what_is_not_known_before_the_call_stays_refused(function: Callable[..., str], named: str) -> None:
    with pytest.raises(NotSpeculableError, match=named):
        speculable(tool(function), reads=["context", "configurable"])


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
