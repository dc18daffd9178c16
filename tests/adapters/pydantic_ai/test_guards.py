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

from agentrt.adapters.pydantic_ai import SpeculateTools, allow_speculation
from agentrt.errors import ConfigurationError
from tests.adapters.pydantic_ai.doubles import Happenings, Oracle, Script, at_once, settled

pytestmark = pytest.mark.usefixtures("prediction_is_free")


class Guarded:
    """An agent whose model calls ``delete`` once the draft of that call has been decided on, or ``until``."""

    def __init__(self, *, until: str | None = None, **options: Any) -> None:
        self.decided = [until] if until else ["PredictorSkipped", "DraftRefused", "SpeculationStarted"]
        self.happenings = Happenings()
        self.runs: list[str] = []
        self.script = Script([("delete", {"q": "a"})], "done", before=self._until_decided)
        self.speculation = SpeculateTools[None](
            Oracle(self.script), tools=["delete"], observers=[self.happenings], **options
        )

    async def _until_decided(self, turn: int) -> None:
        if turn == 0:
            await self.happenings.until_one_of(*self.decided)
            await settled()

    async def delete(self, q: str) -> str:
        self.runs.append(q)
        self.happenings.note("ran")
        return f"deleted {q}"

    def agent(self, *tools: Any, toolsets: Any = (), capabilities: Any = ()) -> Agent[None, Any]:
        return Agent(
            self.script.model(),
            tools=tools,
            toolsets=toolsets,
            output_type=[str, DeferredToolRequests],
            capabilities=[self.speculation, *capabilities],
        )

    @property
    def refusals(self) -> list[str]:
        """Why the predictor or its draft was refused."""
        problems = [problem for turn in self.speculation.report().turns for problem in turn.problems]
        return [*problems, *(seen for seen in self.happenings.seen if seen.startswith("refused"))]


def test_nothing_needs_approval() -> None:
    async def main() -> None:
        guarded = Guarded()
        await guarded.agent(guarded.delete).run("go")

        assert guarded.runs == ["a"]
        assert guarded.speculation.report().total.claims == 1

    asyncio.run(main())


def needs_approval(guarded: Guarded) -> Any:
    return guarded.agent(Tool(guarded.delete, requires_approval=True))


def raises_approval_required(guarded: Guarded) -> Any:
    async def delete(ctx: RunContext[None], q: str) -> str:
        if not ctx.tool_call_approved:
            raise ApprovalRequired
        return await guarded.delete(q)

    return guarded.agent(delete)


def validator_requires_approval(guarded: Guarded) -> Any:
    def validate(ctx: RunContext[None], q: str) -> None:
        if not ctx.tool_call_approved:
            raise ApprovalRequired

    return guarded.agent(Tool(guarded.delete, args_validator=validate))


def toolset_requires_approval(guarded: Guarded) -> Any:
    return guarded.agent(toolsets=[FunctionToolset([guarded.delete]).approval_required()])


def dynamic_toolset_requires_approval(guarded: Guarded) -> Any:
    agent = guarded.agent()

    @agent.toolset
    def toolset(ctx: RunContext[None]) -> Any:
        return FunctionToolset([guarded.delete]).approval_required()

    return agent


def hook_requires_approval(guarded: Guarded) -> Any:
    async def ask(ctx: RunContext[None], *, call: Any, tool_def: Any, args: Any) -> Any:
        if not ctx.tool_call_approved:
            raise ApprovalRequired
        return args

    return guarded.agent(guarded.delete, capabilities=[Hooks(before_tool_execute=ask)])


APPROVALS = [
    needs_approval,
    raises_approval_required,
    validator_requires_approval,
    toolset_requires_approval,
    dynamic_toolset_requires_approval,
    hook_requires_approval,
]


@pytest.mark.parametrize("build", APPROVALS)
@pytest.mark.parametrize("approved", [True, False], ids=["approved", "denied"])
def test_no_call_runs_before_its_approval(build: Callable[[Guarded], Any], approved: bool) -> None:
    async def main() -> None:
        guarded = Guarded()
        agent = build(guarded)
        first = await agent.run("go")

        assert guarded.runs == []
        assert isinstance(first.output, DeferredToolRequests)
        assert [call.tool_name for call in first.output.approvals] == ["delete"]
        assert guarded.speculation.report().total.claims == 0

        decided = DeferredToolResults(approvals={first.output.approvals[0].tool_call_id: approved})
        second = await agent.run(message_history=first.all_messages(), deferred_tool_results=decided)
        assert guarded.runs == (["a"] if approved else [])
        assert second.output == "done"

    asyncio.run(main())


def test_an_external_call_is_left_alone() -> None:
    async def main() -> None:
        guarded = Guarded()

        async def delete(q: str) -> str:
            raise CallDeferred

        result = await guarded.agent(delete).run("go")

        assert isinstance(result.output, DeferredToolRequests)
        assert [call.tool_name for call in result.output.calls] == ["delete"]

    asyncio.run(main())


def test_before_approval_runs_the_tool_and_keeps_its_result_until_the_approval() -> None:
    async def main() -> None:
        guarded = Guarded(until="ran", before_approval=True)

        async def approve(ctx: RunContext[None], requests: DeferredToolRequests) -> DeferredToolResults:
            assert guarded.runs == ["a"]  # speculatively
            return DeferredToolResults(approvals={call.tool_call_id: True for call in requests.approvals})

        agent = guarded.agent(
            Tool(guarded.delete, requires_approval=True), capabilities=[HandleDeferredToolCalls(approve)]
        )
        result = await agent.run("go")

        assert guarded.runs == ["a"]
        assert "deleted a" in str(result.all_messages())
        assert guarded.speculation.report().total.claims == 1

    asyncio.run(main())


def test_a_speculation_whose_approval_is_left_to_a_later_run_ends_with_its_run() -> None:
    async def main() -> None:
        guarded = Guarded(until="began", before_approval=True)

        async def delete(q: str) -> str:
            guarded.happenings.note("began")
            try:
                await asyncio.Event().wait()
            finally:
                await settled()
                guarded.runs.append("ended")
            return ""

        result = await guarded.agent(Tool(delete, requires_approval=True)).run("go")

        assert isinstance(result.output, DeferredToolRequests)
        assert guarded.runs == ["ended"]
        assert guarded.speculation.report().total.wasted == 1
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(main())


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
    """Only counts calls."""

    calls: int = 0

    async def call_tool(self, name: str, tool_args: Any, ctx: Any, tool: Any) -> Any:
        _measured.append(name)
        return await super().call_tool(name, tool_args, ctx, tool)


_measured: list[str] = []


@pytest.mark.parametrize(
    ("build", "guard"),
    [
        (lambda guarded: guarded.agent(guarded.delete, capabilities=[Stopping()]), "capability Stopping"),
        (
            lambda guarded: guarded.agent(guarded.delete, capabilities=[StoppingAfterAll()]),
            "capability StoppingAfterAll",
        ),
        (
            lambda guarded: guarded.agent(toolsets=[Rewriting(FunctionToolset([guarded.delete]))]),
            "toolset Rewriting",
        ),
    ],
)
def test_what_may_decide_on_a_call_sees_it_first(build: Callable[[Guarded], Any], guard: str) -> None:
    async def main() -> None:
        guarded = Guarded()
        await build(guarded).run("go")

        assert len(guarded.runs) == 1
        assert any(f"the {guard} has to let the call pass" in reason for reason in guarded.refusals)

    asyncio.run(main())


def hooks_of_another_tool(guarded: Guarded) -> Any:
    hooks = Hooks[None]()

    @hooks.on.before_tool_execute(tools=["search"])
    async def ask(ctx: Any, *, call: Any, tool_def: Any, args: Any) -> Any:
        raise ApprovalRequired

    return guarded.agent(guarded.delete, capabilities=[hooks])


def hooks_on_results(guarded: Guarded) -> Any:
    async def redact(ctx: Any, *, call: Any, tool_def: Any, args: Any, result: Any) -> Any:
        return result.upper()

    return guarded.agent(guarded.delete, capabilities=[Hooks(after_tool_execute=redact)])


def marked_hook(guarded: Guarded) -> Any:
    @allow_speculation
    async def note(ctx: Any, *, call: Any, tool_def: Any, args: Any) -> Any:
        return args

    return guarded.agent(guarded.delete, capabilities=[Hooks(before_tool_execute=note)])


def marked_capability(guarded: Guarded) -> Any:
    return guarded.agent(guarded.delete, capabilities=[Logging()])


def marked_toolset(guarded: Guarded) -> Any:
    return guarded.agent(toolsets=[Measuring(FunctionToolset([guarded.delete]))])


@pytest.mark.parametrize(
    "build", [hooks_of_another_tool, hooks_on_results, marked_hook, marked_capability, marked_toolset]
)
def test_what_decides_nothing_does_not_hold_up_a_speculation(build: Callable[[Guarded], Any]) -> None:
    async def main() -> None:
        guarded = Guarded()
        _measured.clear()
        await build(guarded).run("go")

        assert guarded.runs == ["a"]
        assert guarded.speculation.report().total.claims == 1
        assert _measured == (["delete"] if build is marked_toolset else [])  # the real call, once

    asyncio.run(main())


def test_a_sequential_tool_runs_alone() -> None:
    async def main() -> None:
        guarded = Guarded(before_approval=True)
        await guarded.agent(Tool(guarded.delete, sequential=True)).run("go")

        assert guarded.runs == ["a"]
        assert any("the tool is sequential" in reason for reason in guarded.refusals)

    asyncio.run(main())


def test_a_tool_that_prepare_hides_is_not_offered() -> None:
    async def main() -> None:
        guarded = Guarded()

        async def hide(ctx: RunContext[None], definition: Any) -> Any:
            return None

        guarded.script.answers = ("done",)
        guarded.script.before = at_once
        await guarded.agent(Tool(guarded.delete, prepare=hide)).run("go")

        assert guarded.runs == []
        assert guarded.speculation.report().turns == ()

    asyncio.run(main())


def test_a_tool_that_prepare_renames_is_claimed() -> None:
    async def main() -> None:
        guarded = Guarded()

        async def rename(ctx: RunContext[None], definition: Any) -> Any:
            definition.name = "delete"
            return definition

        async def remove(q: str) -> str:
            return await guarded.delete(q)

        await guarded.agent(Tool(remove, prepare=rename)).run("go")

        assert guarded.runs == ["a"]
        assert guarded.speculation.report().total.claims == 1

    asyncio.run(main())


def test_only_classes_and_functions_can_be_marked() -> None:
    with pytest.raises(ConfigurationError, match="Give its class"):
        allow_speculation(Stopping())  # type: ignore[type-var]
