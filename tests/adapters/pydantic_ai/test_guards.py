"""What has to see a call before its tool runs: approvals, validators, hooks and wrapper toolsets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="needs the extra pydantic-ai")

from pydantic_ai import Agent, ApprovalRequired, DeferredToolRequests, DeferredToolResults, RunContext, Tool
from pydantic_ai.capabilities import AbstractCapability, HandleDeferredToolCalls, Hooks
from pydantic_ai.exceptions import CallDeferred
from pydantic_ai.toolsets import FunctionToolset, WrapperToolset

from agentrt.adapters.pydantic_ai import allow_speculation
from agentrt.errors import ConfigurationError
from tests.adapters.pydantic_ai.doubles import Speculating, at_once, settled

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("prediction_is_free")]


class Guarded(Speculating):
    """An agent whose model calls ``delete`` once the draft of that call has been decided on, or ``until``."""

    def __init__(self, *, until: str | None = None, **options: Any) -> None:
        decided = [until] if until else ["PredictorSkipped", "DraftRefused", "SpeculationStarted"]
        super().__init__([("delete", {"q": "a"})], "done", until=[decided], tools=["delete"], **options)

    async def delete(self, q: str) -> str:
        self.happenings.note(f"ran {q}")
        return f"deleted {q}"

    def agent(self, *tools: Any, **settings: Any) -> Agent[None, Any]:
        return super().agent(*tools, output_type=[str, DeferredToolRequests], **settings)

    @property
    def refusals(self) -> list[str]:
        """Why the predictor or its draft was refused."""
        problems = [problem for turn in self.speculation.report().turns for problem in turn.problems]
        return [*problems, *(seen for seen in self.happenings.seen if seen.startswith("refused"))]


Build = Callable[[Guarded], Agent[None, Any]]


async def test_nothing_needs_approval() -> None:
    guarded = Guarded()
    await guarded.agent(guarded.delete).run("go")

    assert guarded.runs == ["a"]
    assert guarded.total.claims == 1


def ask_unless_approved(ctx: RunContext[None], q: str) -> None:
    if not ctx.tool_call_approved:
        raise ApprovalRequired


async def hook_unless_approved(ctx: RunContext[None], *, call: Any, tool_def: Any, args: Any) -> Any:
    ask_unless_approved(ctx, "")
    return args


def raises_approval_required(guarded: Guarded) -> Any:
    async def delete(ctx: RunContext[None], q: str) -> str:
        ask_unless_approved(ctx, q)
        return await guarded.delete(q)

    return guarded.agent(delete)


@pytest.mark.parametrize(
    "build",
    [
        lambda guarded: guarded.agent(Tool(guarded.delete, requires_approval=True)),
        raises_approval_required,
        lambda guarded: guarded.agent(Tool(guarded.delete, args_validator=ask_unless_approved)),
        lambda guarded: guarded.agent(toolsets=[FunctionToolset([guarded.delete]).approval_required()]),
        lambda guarded: guarded.agent(
            toolsets=[lambda context: FunctionToolset([guarded.delete]).approval_required()]
        ),
        lambda guarded: guarded.agent(
            guarded.delete, capabilities=[Hooks(before_tool_execute=hook_unless_approved)]
        ),
    ],
    ids=["tool", "body", "validator", "toolset", "dynamic toolset", "hook"],
)
@pytest.mark.parametrize("approved", [True, False], ids=["approved", "denied"])
async def test_no_call_runs_before_its_approval(build: Build, approved: bool) -> None:
    guarded = Guarded()
    agent = build(guarded)
    first = await agent.run("go")

    assert guarded.runs == []
    assert isinstance(first.output, DeferredToolRequests)
    assert [call.tool_name for call in first.output.approvals] == ["delete"]
    assert guarded.total.claims == 0

    decided = DeferredToolResults(approvals={first.output.approvals[0].tool_call_id: approved})
    second = await agent.run(message_history=first.all_messages(), deferred_tool_results=decided)
    assert guarded.runs == (["a"] if approved else [])
    assert second.output == "done"


async def test_an_external_call_is_left_alone() -> None:
    guarded = Guarded()

    async def delete(q: str) -> str:
        raise CallDeferred

    result = await guarded.agent(delete).run("go")

    assert isinstance(result.output, DeferredToolRequests)
    assert [call.tool_name for call in result.output.calls] == ["delete"]


async def test_before_approval_runs_the_tool_and_keeps_its_result_until_the_approval() -> None:
    guarded = Guarded(until="ran a", before_approval=True)

    async def approve(ctx: RunContext[None], requests: DeferredToolRequests) -> DeferredToolResults:
        assert guarded.runs == ["a"]  # speculatively
        return DeferredToolResults(approvals={call.tool_call_id: True for call in requests.approvals})

    agent = guarded.agent(
        Tool(guarded.delete, requires_approval=True), capabilities=[HandleDeferredToolCalls(approve)]
    )
    result = await agent.run("go")

    assert guarded.runs == ["a"]
    assert "deleted a" in str(result.all_messages())
    assert guarded.total.claims == 1


async def test_a_speculation_whose_approval_is_left_to_a_later_run_ends_with_its_run() -> None:
    guarded = Guarded(until="began", before_approval=True)

    async def delete(q: str) -> str:
        guarded.happenings.note("began")
        try:
            await asyncio.Event().wait()
        finally:
            await settled()
            guarded.happenings.note("ended")
        return ""

    before = asyncio.all_tasks()
    result = await guarded.agent(Tool(delete, requires_approval=True)).run("go")

    assert isinstance(result.output, DeferredToolRequests)
    assert guarded.happenings.seen.count("ended") == 1
    assert guarded.total.wasted == 1
    assert asyncio.all_tasks() == before


# Hooks and toolsets that may decide.


class Stopping(AbstractCapability[None]):
    """Changes the arguments of each call."""

    async def before_tool_execute(self, ctx: Any, *, call: Any, tool_def: Any, args: Any) -> Any:
        return {**args, "q": "b"}


@allow_speculation
class Logging(AbstractCapability[None]):
    """Only notes calls."""

    async def before_tool_execute(self, ctx: Any, *, call: Any, tool_def: Any, args: Any) -> Any:
        return args


class StoppingAfterAll(Logging):
    """A subclass of one that decides nothing."""


@dataclass
class Rewriting(WrapperToolset[None]):
    """Changes the arguments of each call."""

    async def call_tool(self, name: str, tool_args: Any, ctx: Any, tool: Any) -> Any:
        return await super().call_tool(name, {**tool_args, "q": "b"}, ctx, tool)


@allow_speculation
@dataclass
class Measuring(WrapperToolset[None]):
    """Only notes calls."""

    async def call_tool(self, name: str, tool_args: Any, ctx: Any, tool: Any) -> Any:
        _measured.append(name)
        return await super().call_tool(name, tool_args, ctx, tool)


_measured: list[str] = []


def with_capability(capability: Any) -> Build:
    return lambda guarded: guarded.agent(guarded.delete, capabilities=[capability])


def in_toolset(wrapper: Any) -> Build:
    return lambda guarded: guarded.agent(toolsets=[wrapper(FunctionToolset([guarded.delete]))])


@pytest.mark.parametrize(
    ("build", "guard"),
    [
        (with_capability(Stopping()), "capability Stopping"),
        (with_capability(StoppingAfterAll()), "capability StoppingAfterAll"),
        (in_toolset(Rewriting), "toolset Rewriting"),
    ],
)
async def test_what_may_decide_on_a_call_sees_it_first(build: Build, guard: str) -> None:
    guarded = Guarded()
    await build(guarded).run("go")

    assert len(guarded.runs) == 1
    assert any(f"the {guard} has to let the call pass" in reason for reason in guarded.refusals)


def hooks_of_another_tool(guarded: Guarded) -> Any:
    hooks = Hooks[None]()

    @hooks.on.before_tool_execute(tools=["search"])
    async def ask(ctx: Any, *, call: Any, tool_def: Any, args: Any) -> Any:
        raise ApprovalRequired

    return guarded.agent(guarded.delete, capabilities=[hooks])


async def upper_case(ctx: Any, *, call: Any, tool_def: Any, args: Any, result: Any) -> Any:
    return result.upper()


@allow_speculation
async def note(ctx: Any, *, call: Any, tool_def: Any, args: Any) -> Any:
    return args


@pytest.mark.parametrize(
    ("build", "measured"),
    [
        (hooks_of_another_tool, []),
        (with_capability(Hooks(after_tool_execute=upper_case)), []),
        (with_capability(Hooks(before_tool_execute=note)), []),
        (with_capability(Logging()), []),
        (in_toolset(Measuring), ["delete"]),  # the real call, once
    ],
    ids=["another tool", "results", "marked hook", "marked capability", "marked toolset"],
)
async def test_what_decides_nothing_does_not_hold_up_a_speculation(build: Build, measured: list[str]) -> None:
    guarded = Guarded()
    _measured.clear()
    await build(guarded).run("go")

    assert guarded.runs == ["a"]
    assert guarded.total.claims == 1
    assert _measured == measured


async def test_a_sequential_tool_runs_alone() -> None:
    guarded = Guarded(before_approval=True)
    await guarded.agent(Tool(guarded.delete, sequential=True)).run("go")

    assert guarded.runs == ["a"]
    assert any("the tool is sequential" in reason for reason in guarded.refusals)


async def test_a_tool_that_prepare_hides_is_not_offered() -> None:
    guarded = Guarded()

    async def hide(ctx: RunContext[None], definition: Any) -> Any:
        return None

    guarded.script.answers = ("done",)
    guarded.script.before = at_once
    await guarded.agent(Tool(guarded.delete, prepare=hide)).run("go")

    assert guarded.runs == []
    assert guarded.speculation.report().turns == ()


async def test_a_tool_that_prepare_renames_is_claimed() -> None:
    guarded = Guarded()

    async def rename(ctx: RunContext[None], definition: Any) -> Any:
        definition.name = "delete"
        return definition

    async def remove(q: str) -> str:
        return await guarded.delete(q)

    await guarded.agent(Tool(remove, prepare=rename)).run("go")

    assert guarded.runs == ["a"]
    assert guarded.total.claims == 1


def test_only_classes_and_functions_can_be_marked() -> None:
    with pytest.raises(ConfigurationError, match="Give its class"):
        allow_speculation(Stopping())  # type: ignore[type-var]
