"""Tools that code calls: `CodeMode` of pydantic-ai-harness, and a capability like it without a sandbox."""

from __future__ import annotations

import ast
import asyncio
import json
import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="needs the extra pydantic-ai")

from pydantic import TypeAdapter
from pydantic_ai import Agent, ApprovalRequiredToolset, FunctionToolset
from pydantic_ai.agent import AgentRunResult
from pydantic_ai.capabilities import AbstractCapability, Hooks
from pydantic_ai.messages import ModelMessage, ToolCallPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from pydantic_ai.tool_manager import ToolManager
from pydantic_ai.tools import RunContext, ToolDefinition
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool, WrapperToolset

from agentrt.adapters.pydantic_ai import SpeculateTools
from agentrt.errors import ConfigurationError
from agentrt.speculators import CodeSpeculator
from tests.adapters.pydantic_ai.doubles import Happenings, transcript

try:
    from pydantic_ai_harness import CodeMode
except ModuleNotFoundError:
    CodeMode = None

pytestmark = pytest.mark.anyio

CODE = """rain = await get_weather(city="Oslo")
await note_down(text="look")
after = await get_weather(city="Rome")
[rain, after]
"""
_ARGUMENTS: Any = TypeAdapter(dict[str, Any]).validator


@dataclass(kw_only=True)
class RunCode(ToolsetTool[Any]):
    """The tool that runs code, with what it can call, under the names that `CodeMode` has for them."""

    wrapped_tools: dict[str, ToolsetTool[Any]]
    callable_defs: dict[str, ToolDefinition]


class CodeToolset(WrapperToolset[Any]):
    """Shows one tool in place of all; its code is awaited calls with literal keywords, a line each."""

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        inner = await self.wrapped.get_tools(ctx)
        tool = RunCode(
            toolset=self,
            tool_def=ToolDefinition(name="run_code", parameters_json_schema={"type": "object"}),
            max_retries=1,
            args_validator=_ARGUMENTS,
            wrapped_tools=inner,
            callable_defs={name: each.tool_def for name, each in inner.items()},
        )
        return {"run_code": tool}

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        assert isinstance(tool, RunCode)
        assert ctx.tool_manager is not None
        manager: Any = ToolManager(
            toolset=self.wrapped,
            root_capability=ctx.tool_manager.root_capability,
            ctx=ctx,
            tools=tool.wrapped_tools,
        )
        results = []
        for number, (called, keywords) in enumerate(re.findall(r"await (\w+)\((.*)\)", tool_args["code"]), 1):
            arguments = {name: ast.literal_eval(value) for name, value in [keywords.split("=")]}
            part = ToolCallPart(called, arguments, f"{ctx.tool_call_id}__{number}")
            results.append(await manager.handle_call(part))
        return [each for each in results if each is not None]


@dataclass
class PlainCodeMode(AbstractCapability[Any]):
    """The capability of :class:`CodeToolset`."""

    def get_wrapper_toolset(self, toolset: AbstractToolset[Any]) -> AbstractToolset[Any]:
        return CodeToolset(toolset)


@pytest.fixture(params=["plain", "harness"])
def code_mode(request: pytest.FixtureRequest) -> AbstractCapability[Any]:
    if request.param == "plain":
        return PlainCodeMode()
    if CodeMode is None:
        pytest.skip("needs pydantic-ai-harness[codemode]")
    mode: AbstractCapability[Any] = CodeMode()
    return mode


def model(seen: Happenings, *awaited: str) -> FunctionModel:
    """Return a model that writes :data:`CODE`, ends it once ``awaited`` has happened, and then answers."""

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        if len(messages) > 1:
            yield "done"
            return
        text = json.dumps({"code": CODE})
        yield {0: DeltaToolCall("run_code", text[:5], tool_call_id="call_1")}
        yield {0: DeltaToolCall(json_args=text[5:-1])}
        for each in awaited:
            await seen.until(each)
        yield {0: DeltaToolCall(json_args=text[-1:])}

    return FunctionModel(stream_function=stream, model_name="scripted")


async def run(
    seen: Happenings,
    capabilities: Sequence[AbstractCapability[Any]],
    *awaited: str,
    toolset: AbstractToolset[Any] | None = None,
) -> AgentRunResult[str]:
    agent = Agent(
        model(seen, *awaited), toolsets=[toolset or tools(seen)], capabilities=list(capabilities), retries=0
    )
    async with agent.run_stream_events("How is the weather?") as events:
        async for _ in events:
            pass
    result: AgentRunResult[str] = events.result
    return result


def tools(seen: Happenings) -> FunctionToolset[Any]:
    toolset = FunctionToolset[Any]()

    @toolset.tool_plain
    async def get_weather(city: str) -> str:
        """Get the weather."""
        seen.note(f"weather {city}")
        return f"rain in {city}"

    @toolset.tool_plain
    async def note_down(text: str) -> None:
        """Note something down."""
        seen.note(f"note {text}")

    return toolset


def speculation(seen: Happenings) -> SpeculateTools[Any]:
    return SpeculateTools(CodeSpeculator(), tools=["get_weather"], observers=[seen])


async def test_calls_in_code_run_while_it_is_written(code_mode: AbstractCapability[Any]) -> None:
    plain, seen = Happenings(), Happenings()
    expected = await run(plain, [code_mode])
    speculate = speculation(seen)

    result = await run(seen, [speculate, code_mode], "weather Oslo")

    assert transcript(result.all_messages()) == transcript(expected.all_messages())
    happened = [each for each in seen.seen if each.startswith(("weather", "note"))]
    assert happened == ["weather Oslo", "note look", "weather Rome"], "one run each, in order"
    total = speculate.report().total
    assert (total.claims, total.wasted) == (1, 0)


def test_a_guard_of_the_code_or_of_its_calls_comes_first(code_mode: AbstractCapability[Any]) -> None:
    async def refuses(*hooked: str) -> None:
        hooks = Hooks[Any]()

        @hooks.on.before_tool_execute(tools=list(hooked))
        async def look(ctx: RunContext[Any], *, call: ToolCallPart, tool_def: Any, args: Any) -> Any:
            return args

        seen = Happenings()
        speculate = speculation(seen)
        await run(seen, [speculate, hooks, code_mode])

        assert speculate.report().total.claims == 0
        assert speculate.report().total.wasted == 0

    asyncio.run(refuses("run_code"))
    asyncio.run(refuses("get_weather"))


async def test_a_tool_in_code_that_needs_approval_waits(code_mode: AbstractCapability[Any]) -> None:
    seen = Happenings()
    speculate = speculation(seen)
    guarded = ApprovalRequiredToolset(tools(seen), lambda ctx, tool, arguments: False)

    await run(seen, [speculate, code_mode], toolset=guarded)

    assert speculate.report().total.claims == 0
    assert speculate.report().total.wasted == 0


def test_a_tool_that_code_cannot_call_is_named(code_mode: AbstractCapability[Any]) -> None:
    seen = Happenings()
    speculate = SpeculateTools[Any](CodeSpeculator(), tools=["get_wether"])

    with pytest.raises(ConfigurationError, match=r"no tool .get_wether.\. Name some of .*get_weather"):
        asyncio.run(run(seen, [speculate, code_mode]))
