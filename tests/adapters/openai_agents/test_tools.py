"""Which tools of the Agents SDK can be declared speculable, and what their errors and copies do."""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import datetime
from typing import Any

import pytest

pytest.importorskip("agents", reason="needs the extra openai-agents")

from agents import Agent, FunctionTool, RunContextWrapper, function_tool, tool_namespace
from agents.exceptions import UserError
from agents.models.interface import Model
from agents.tool_context import ToolContext
from pydantic import BaseModel

from agentrt import ToolCall, speculable
from agentrt.adapters.openai_agents import report_of, speculate
from agentrt.errors import NotSpeculableError
from agentrt.testing import run_in_virtual_time
from agentrt.tools.speculable import speculable_tool
from tests.adapters.openai_agents.doubles import (
    Drafts,
    Runs,
    Trial,
    agent,
    calling,
    declared_look,
    look,
    look_tool,
    model,
    outputs,
    run,
    saying,
)

pytestmark = pytest.mark.usefixtures("prediction_is_free")


class Found(BaseModel):
    text: str


def test_the_copy_is_the_same_tool_to_the_sdk() -> None:
    @function_tool
    def look(q: str) -> str:
        """Look something up."""
        return q

    declared = speculable(look)

    assert type(declared) is FunctionTool
    assert declared is not look
    assert speculable_tool(look) is None
    for field in dataclasses.fields(FunctionTool):
        if field.name != "on_invoke_tool":
            assert getattr(declared, field.name) == getattr(look, field.name)
    assert declared.__wrapped__ is look.__wrapped__
    assert type(declared.on_invoke_tool).__name__ == type(look.on_invoke_tool).__name__


@function_tool
def wallet(context: RunContextWrapper[Any], currency: str) -> str:
    return currency


@function_tool
def traced(context: ToolContext[Any]) -> str:
    return context.tool_call_id


@function_tool
def add(*numbers: int) -> int:
    return sum(numbers)


@function_tool(output_type=Found, allowed_callers=["direct", "programmatic"])
def find(q: str) -> Found:
    return Found(text=q)


class Counter:
    """Count."""

    def __call__(self, n: int) -> int:
        return n


async def invoke(context: Any, arguments: str) -> str:
    return arguments


BY_HAND = FunctionTool("by_hand", "", {}, invoke, strict_json_schema=False)
NO_FUNCTION = "is not made by @function_tool of a function"


@pytest.mark.parametrize(
    ("tool", "reason"),
    [
        (wallet, "wallet takes the context of the run.*ordinary"),
        (traced, "traced takes the context of the run.*ordinary"),
        (BY_HAND, NO_FUNCTION),
        (Agent(name="helper").as_tool("ask_helper", "Ask."), NO_FUNCTION),
        (function_tool(Counter()), NO_FUNCTION),
        (add, r"add takes \*numbers: .*Use named parameters"),  # a model cannot name them
        (find, "output schema"),
    ],
)
def test_tools_that_cannot_be_run_speculatively_are_refused(tool: Any, reason: str) -> None:
    with pytest.raises(NotSpeculableError, match=reason):
        speculable(tool)


def test_a_speculable_function_below_function_tool_is_an_error() -> None:
    @function_tool
    @speculable
    def look(q: str) -> str:
        return q

    chat = speculate(model(saying()), Drafts())
    with pytest.raises(NotSpeculableError, match="Put @speculable above @function_tool"):
        asyncio.run(run(agent(chat, look)))
    assert speculable_tool(speculable(look)) is not None


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("handler", ["default", "own", "none"])
def test_an_error_of_the_tool_is_that_of_the_real_call(is_async: bool, handler: str) -> None:
    """A failed speculation is a miss: the tool runs again, and the SDK makes its message of that error."""

    def explain(context: Any, error: Exception) -> str:
        return f"sorry: {error}"

    def outcome(trial: Trial) -> Any:
        def fail(q: str) -> str:
            trial.runs.note(q)
            raise ValueError(f"run {len(trial.runs.made) - trial.speculates}")

        async def afail(q: str) -> str:
            return fail(q)

        options: Any = {"default": {}, "own": {"failure_error_function": explain}}.get(
            handler, {"failure_error_function": None}
        )
        tool = trial.tool(function_tool(afail if is_async else fail, name_override="look", **options))
        chat = trial.model(calling(look("a"), after=trial.until("a")), saying(), drafts=[[look("a")]])
        try:
            return outputs(asyncio.run(run(agent(chat, tool))))
        except UserError as error:
            return str(error)

    plain, speculating = Trial(False), Trial(True)
    assert outcome(speculating) == outcome(plain)
    assert (plain.runs.made, speculating.runs.made) == (["a"], ["a", "a"])


def test_a_time_limit_of_the_tool_holds_for_the_real_call() -> None:
    """In virtual time: the speculation has run for 2 s when the call is made, whose limit is 5 s."""

    async def main(speculates: bool, tool_s: float) -> tuple[list[str], float]:
        @function_tool(timeout=5.0)
        async def look(q: str) -> str:
            await asyncio.sleep(tool_s)
            return "found"

        call, tool = ToolCall("look", {"q": "a"}), look
        chat: Model = model(calling(call, after=lambda: asyncio.sleep(2)), saying())
        if speculates:
            tool, chat = speculable(tool), speculate(chat, Drafts([call]))
        began = asyncio.get_running_loop().time()
        result = await run(agent(chat, tool))
        return outputs(result), asyncio.get_running_loop().time() - began

    def timed(speculates: bool, tool_s: float) -> tuple[list[str], float]:
        return run_in_virtual_time(lambda: main(speculates, tool_s))

    assert timed(speculates=True, tool_s=100) == timed(speculates=False, tool_s=100)
    assert timed(speculates=False, tool_s=4) == (["found"], 6.0)
    assert timed(speculates=True, tool_s=4) == (["found"], 4.0)


def test_bad_arguments_of_the_model_are_answered_as_before() -> None:
    async def main(trial: Trial) -> Any:
        wrong = ToolCall("look", {"p": "a"})
        drafts = [look("a"), wrong]
        chat = trial.model(calling(wrong, after=trial.until("a")), saying(), drafts=[drafts])
        return outputs(await run(agent(chat, trial.tool(look_tool(trial.runs)))))

    assert asyncio.run(main(Trial(True))) == asyncio.run(main(Trial(False)))


def test_the_function_gets_validated_arguments() -> None:
    runs = Runs()

    @speculable
    @function_tool
    def plan(day: datetime.date, people: int = 2) -> str:
        assert isinstance(day, datetime.date)
        return runs.note(f"{day.year} {people}")

    call = ToolCall("plan", {"day": "2026-03-01", "people": 2})
    draft = ToolCall("plan", {"day": "2026-03-01"})
    chat = speculate(model(calling(call, after=runs.until("2026 2")), saying()), Drafts([draft]))

    assert outputs(asyncio.run(run(agent(chat, plan)))) == ["found 2026 2"]
    assert runs.made == ["2026 2"]


@function_tool
def other() -> None: ...


def test_a_copy_claims_and_a_renamed_one_does_not() -> None:
    runs = Runs()

    look = declared_look(runs)

    async def claims(tool: FunctionTool) -> int:
        runs.made.clear()
        call = ToolCall(tool.name, {"q": "a"})
        drafts = Drafts([call, ToolCall("other", {})])
        after = runs.until("a") if tool.name == "look" else drafts.until_decided
        chat = speculate(model(calling(call, after=after), saying()), drafts)
        assert outputs(await run(agent(chat, tool, speculable(other)))) == ["found a"]
        assert runs.made == ["a"]
        return report_of(chat).total.claims

    renamed = copy.copy(look)
    renamed.name = "find"
    assert asyncio.run(claims(copy.copy(look))) == 1
    assert asyncio.run(claims(renamed)) == 0
    assert asyncio.run(claims(dataclasses.replace(look, description="Other."))) == 1


def test_a_tool_that_is_called_by_a_namespace_is_not_run() -> None:
    runs = Runs()

    drafts = Drafts([look("a")])
    chat = speculate(model(saying(after=drafts.until_decided)), drafts)
    (named,) = tool_namespace(name="crm", description="Customers.", tools=[declared_look(runs)])

    asyncio.run(run(agent(chat, named, speculable(other))))

    assert runs.made == []
