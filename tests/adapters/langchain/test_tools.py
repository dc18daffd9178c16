"""A speculable LangChain tool is the tool it was, and refuses what cannot be run early."""

from __future__ import annotations

import asyncio
import copy
import pickle
from datetime import date
from typing import Annotated, Any

import pytest
from langchain.tools import ToolRuntime
from langchain_core.callbacks import CallbackManagerForToolRun, Callbacks
from langchain_core.messages import ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, InjectedToolCallId, StructuredTool, Tool, ToolException, tool
from langgraph.prebuilt import InjectedState, InjectedStore
from pydantic import BaseModel, Field

from agentrt import SpeculationSession, ToolCall, speculable
from agentrt.adapters.langchain import report_of, speculate
from agentrt.errors import ConfigurationError, NotSpeculableError
from agentrt.testing import ScriptedSpeculator, run_in_virtual_time
from agentrt.tools.speculable import speculable_tool
from agentrt.tools.speculable_tool import SpeculableTool
from tests.adapters.doubles import Oracle, ScriptedChat
from tests.adapters.langchain.graphs import INPUT, after_turn, agent, async_tool, transcript


class Query(BaseModel):
    q: str
    limit: int = Field(default=3, ge=1)


@tool("look", args_schema=Query)
def plain_look(q: str, limit: int) -> str:
    """Look something up."""
    return f"found {q} {limit}"


look = speculable(plain_look)


def described(a_tool: Any) -> SpeculableTool:
    found = speculable_tool(a_tool)
    assert found is not None
    return found


def tool_call(name: str = "look", **arguments: Any) -> dict[str, Any]:
    return {"name": name, "args": arguments, "id": "call_1", "type": "tool_call"}


def test_the_copy_passes_for_the_original() -> None:
    assert isinstance(look, StructuredTool)
    assert look is not plain_look
    assert speculable_tool(plain_look) is None
    assert type(look).__name__ == "StructuredTool"
    assert look.args == plain_look.args
    assert look.tool_call_schema.model_json_schema() == plain_look.tool_call_schema.model_json_schema()  # type: ignore[union-attr]
    for variant in (look, look.model_copy(), look.with_config(tags=["x"])):
        assert variant.invoke({"q": "a"}) == "found a 3"
        message = variant.invoke(tool_call(q="a"))
        assert isinstance(message, ToolMessage)
        assert (message.content, message.tool_call_id) == ("found a 3", "call_1")
        assert asyncio.run(variant.ainvoke({"q": "a", "limit": 1})) == "found a 1"


def test_decorating_again_replaces_the_options() -> None:
    again = speculable(look, ttl=1.0)
    assert type(again) is type(look)
    assert described(again).options.ttl == 1.0
    assert again.invoke(tool_call(q="a")).content == "found a 3"


def test_decorating_with_options() -> None:
    @speculable(ttl=1.0, canonical=lambda city: {"city": city.lower()})
    @tool
    async def weather(city: str) -> str:
        """Say how the weather is."""
        return city

    tool_description = described(weather)
    assert tool_description.options.ttl == 1.0
    assert tool_description.call is None
    assert tool_description.key(tool_description.bind({"city": "OSLO"})) == tool_description.key(
        tool_description.bind({"city": "oslo"})
    )
    assert asyncio.run(weather.ainvoke({"city": "Oslo"})) == "Oslo"


def test_arguments_are_validated_as_the_tool_does() -> None:
    keys = {
        described(look).key(described(look).bind(arguments))
        for arguments in ({"q": "a"}, {"q": "a", "limit": 3}, {"q": "a", "limit": "3"})
    }
    assert len(keys) == 1
    with pytest.raises(ValueError, match="limit"):
        described(look).bind({"q": "a", "limit": 0})


def test_errors_and_artifacts_are_handled_as_before() -> None:
    @speculable
    @tool(response_format="content_and_artifact")
    def split(q: str) -> tuple[str, list[str]]:
        """Split."""
        if not q:
            raise ToolException("nothing to split")
        return q, q.split()

    split.handle_tool_error = True  # after decorating: the speculation uses the same tool
    message = split.invoke(tool_call("split", q="a b"))
    assert (message.content, message.artifact) == ("a b", ["a", "b"])
    failed = split.invoke(tool_call("split", q=""))
    assert (failed.content, failed.status) == ("nothing to split", "error")
    with pytest.raises(ValueError, match="q"):
        split.invoke(tool_call("split"))


class Shout(BaseTool):
    name: str = "shout"
    description: str = "Shout."

    def _run(self, text: str, times: int = 1) -> str:
        return text.upper() * times


def asking(text: str) -> str:
    return f"{text}?"


@pytest.mark.parametrize(
    ("given", "arguments", "result"),
    [
        (Shout(), {"text": "a"}, "A"),
        (Tool("ask", asking, "Ask."), {"__arg1": "a"}, "a?"),
        (StructuredTool.from_function(asking, description="Ask."), {"text": "a"}, "a?"),
        (
            StructuredTool.from_function(
                asking,
                name="ask",
                description="Ask.",
                args_schema={"type": "object", "properties": {"text": {}}},
            ),
            {"text": "a"},
            "a?",
        ),
    ],
    ids=["subclass", "single-input", "structured", "json-schema"],
)
def test_every_kind_of_tool_is_claimed(given: BaseTool, arguments: dict[str, Any], result: str) -> None:
    made = speculable(given)
    assert isinstance(made, type(given))
    assert made.invoke(arguments) == asyncio.run(made.ainvoke(arguments)) == result
    call = ToolCall(made.name, arguments, "call_1")

    async def claimed() -> tuple[Any, int]:
        async with after_turn(made, [call]) as session:
            message = await made.ainvoke(tool_call(made.name, **arguments))
        return message.content, session.report().total.claims

    assert run_in_virtual_time(claimed) == (result, 1)


def test_a_call_that_misses_takes_no_claim_of_an_equal_call() -> None:
    runs: list[str] = []

    @speculable
    @tool
    async def find(q: str) -> str:
        """Find something."""
        runs.append(q)
        return q

    first, second = (ToolCall("find", {"q": "a"}, f"call_{number}") for number in (1, 2))

    async def main() -> list[int]:
        ran = []
        async with after_turn(find, [first], first, second):
            for call in (second, first):
                await find.ainvoke({**tool_call("find", q="a"), "id": call.id})
                ran.append(len(runs))
        return ran

    assert run_in_virtual_time(main) == [2, 2]


class Traced(BaseTool):
    name: str = "traced"
    description: str = "Look."

    def _run(self, q: str, run_manager: CallbackManagerForToolRun | None = None) -> str:
        return "traced" if run_manager is not None else "untraced"


def test_a_run_manager_is_handed_over_as_before() -> None:
    made = speculable(Traced())
    assert made.invoke({"q": "a"}) == asyncio.run(made.ainvoke({"q": "a"})) == "traced"


NEEDED: dict[str, tuple[Any, bool]] = {
    "state": (Annotated[dict[str, Any], InjectedState], False),
    "store": (Annotated[Any, InjectedStore()], False),
    "call id": (Annotated[str, InjectedToolCallId], False),
    "runtime": (ToolRuntime, False),
    "config": (RunnableConfig, False),
    "optional config": (RunnableConfig | None, True),
}


@pytest.mark.parametrize(("annotation", "optional"), NEEDED.values(), ids=NEEDED)
def test_tools_that_need_the_real_call_are_refused(annotation: Any, optional: bool) -> None:
    def look(q: str, given: Any) -> str:
        """Look."""
        return q

    look.__annotations__["given"] = annotation
    look.__defaults__ = (None,) if optional else None
    with pytest.raises(NotSpeculableError, match="given"):
        speculable(tool(look))


class Configured(BaseTool):
    name: str = "configured"
    description: str = "Look."

    def _run(self, q: str, config: RunnableConfig) -> str:
        return q


@tool
def with_callbacks(q: str, callbacks: Callbacks = None) -> str:
    """Look."""
    return q


@pytest.mark.parametrize(("refused", "named"), [(Configured(), "config"), (with_callbacks, "callbacks")])
def test_what_belongs_to_the_call_is_refused_by_its_name(refused: BaseTool, named: str) -> None:
    with pytest.raises(NotSpeculableError, match=named):
        speculable(refused)


class Day(BaseModel):
    d: date
    limit: int = 5


@pytest.mark.parametrize("claimed", [False, True], ids=["func", "invoke"])
@pytest.mark.parametrize("arguments", [{"d": "2025-01-01", "limit": 3}, {"d": date(2025, 1, 1)}], ids=str)
def test_func_gets_its_arguments_unconverted_and_its_own_defaults(
    arguments: dict[str, Any], claimed: bool
) -> None:
    def day(d: date, limit: int = 3) -> str:
        """Show a day."""
        return f"{d!r} {limit}"

    plain = StructuredTool.from_function(day, args_schema=Day)
    shown = speculable(plain)
    made = ToolCall("day", arguments, "c1")

    async def main() -> None:
        async with after_turn(shown, [made]) as session:
            if claimed:
                assert shown.invoke(arguments) == plain.invoke(arguments)
            else:
                assert shown.func is not None
                assert shown.func(**arguments) == day(**arguments)
            assert session.report().total.claims == int(claimed)

    run_in_virtual_time(main)


# Copies of speculable tools and speculating models, as agent frameworks make them.

CALL = [("look", {"q": "q0"})]
DRAFT = [ToolCall("look", {"q": "q0"})]


class Library(BaseTool):
    """A tool with a setting of its own."""

    name: str = "look"
    description: str = "Look something up."
    shelf: str = "A"

    def _run(self, q: str) -> str:
        return f"{q} on {self.shelf}"

    async def _arun(self, q: str) -> str:
        await asyncio.sleep(30)
        return self._run(q)


def said(model: Any, tool: Any, times: int = 1) -> list[Any]:
    async def main() -> list[Any]:
        graph = agent(model, [tool])
        return [transcript((await graph.ainvoke(INPUT))["messages"]) for _ in range(times)]

    return run_in_virtual_time(main)


def test_a_deep_copy_of_model_and_tool_speculates_into_one_report() -> None:
    runs: list[str] = []
    oracle: Any = Oracle([CALL], delay=5)
    oracle.shares_cores = False  # no turn measures the model without it
    given = speculate(ScriptedChat(script=[CALL], delay=40), oracle), async_tool(30, runs)
    model, look = copy.deepcopy(given)
    assert type(look) is type(given[1])
    first, second = said(model, look, times=2)
    assert first == second == said(ScriptedChat(script=[CALL]), given[1])[0]
    assert runs == ["q0", "q0", "q0"]
    assert report_of(model).total.claims == report_of(given[0]).total.claims == 2


def test_a_deep_copy_of_a_bound_model_speculates_on_its_copies_of_the_tools() -> None:
    look = async_tool(30, [])
    model = speculate(ScriptedChat(script=[CALL], delay=40), ScriptedSpeculator(DRAFT, DRAFT))
    bound, copied = copy.deepcopy((model.bind_tools([look]), look))

    async def main() -> int:
        answer = await bound.ainvoke("hi")
        await copied.ainvoke(answer.tool_calls[0])
        return report_of(bound).total.claims

    assert run_in_virtual_time(main) == 1


@pytest.mark.parametrize("deep", [True, False])
def test_a_changed_copy_claims_no_result_of_the_original(deep: bool) -> None:
    original = speculable(Library())
    copied = original.model_copy(update={"shelf": "B"}, deep=deep)
    if deep:
        copied = copy.deepcopy(original)
        copied.shelf = "B"

    async def main() -> tuple[Any, Any]:
        async with after_turn(original, DRAFT, ToolCall("look", {"q": "q0"}, "call_1")):
            call: Any = {"type": "tool_call", "name": "look", "args": {"q": "q0"}, "id": "call_1"}
            return (await copied.ainvoke(call)).content, (await original.ainvoke(call)).content

    assert run_in_virtual_time(main) == ("q0 on B", "q0 on A")


@pytest.mark.parametrize("update", [{}, {"shelf": "B"}])
def test_a_plain_copy_claims_and_a_changed_one_speculates_for_itself(update: dict[str, Any]) -> None:
    look = speculable(Library()).model_copy(update=update)
    model = speculate(ScriptedChat(script=[CALL], delay=40), ScriptedSpeculator(DRAFT))
    assert said(model, look)[0][2][1] == f"q0 on {update.get('shelf', 'A')}"
    assert report_of(model).total.claims == 1


@pytest.mark.parametrize(
    "make",
    [
        lambda: async_tool(1, []),
        lambda: speculate(ScriptedChat(script=[]), ScriptedSpeculator()),
        lambda: SpeculationSession([async_tool(1, [])], []),
    ],
)
def test_what_belongs_to_this_process_says_that_it_cannot_be_pickled(make: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"cannot be (pickled|copied)\. (Pickle|Create)"):
        pickle.dumps(make())


def test_a_session_cannot_be_copied() -> None:
    for copied in (copy.copy, copy.deepcopy):
        with pytest.raises(ConfigurationError, match="one run"):
            copied(SpeculationSession([], []))
