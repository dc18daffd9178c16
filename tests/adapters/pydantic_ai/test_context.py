"""Tools that take a `RunContext`: the run's own dependencies, and nothing that only the real call has."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="needs the extra pydantic-ai")

from pydantic_ai import Agent, ModelRetry, RunContext, Tool, UsageLimits
from pydantic_ai.exceptions import UsageLimitExceeded

from agentrt import SpeculationSession, speculable
from agentrt.adapters.pydantic_ai import SpeculateTools
from agentrt.calls import ToolCall
from agentrt.errors import ConfigurationError
from agentrt.speculators import StreamSpeculator
from tests.adapters.pydantic_ai.doubles import LOOKS, Happenings, Oracle, Script, Speculating, transcript

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("prediction_is_free")]

Context = RunContext[Happenings]
"""The dependencies have an event of asyncio, which no schema can describe."""


async def speculated(tool: Any) -> tuple[Any, Speculating]:
    """Run an agent that calls ``look`` once its speculation has noted that it ran."""
    trial = Speculating(until=["ran"], max_concurrency=1)
    return await trial.agent(tool, deps_type=Happenings).run("go", deps=trial.happenings), trial


async def plain(tool: Any) -> Any:
    """Run the same agent without speculation."""
    agent = Agent(Script(*LOOKS).model(), deps_type=Happenings, tools=[tool])
    return await agent.run("go", deps=Happenings())


@pytest.mark.parametrize("is_async", [True, False], ids=["async", "sync"])
async def test_a_tool_gets_the_dependencies_of_its_run(is_async: bool) -> None:
    loop = asyncio.get_running_loop()

    def look(ctx: Context, q: str) -> str:
        loop.call_soon_threadsafe(ctx.deps.note, "ran")
        return f"{q} by {ctx.tool_name}, {ctx.retry}, in run {ctx.run_id}"

    async def alook(ctx: Context, q: str) -> str:
        return look(ctx, q)

    result, trial = await speculated(Tool(speculable(ttl=5)(alook), name="look") if is_async else look)

    assert trial.happenings.seen.count("ran") == 1
    assert f"a by look, 0, in run {result.run_id}" in str(result.all_messages())
    assert trial.total.claims == 1


@pytest.mark.parametrize(
    "read",
    [
        lambda ctx: len(ctx.messages),
        lambda ctx: ctx.tool_call_id,
        lambda ctx: ctx.tool_call_approved,
        lambda ctx: ctx.enqueue("more") and "queued",
    ],
    ids=["messages", "tool_call_id", "tool_call_approved", "enqueue"],
)
async def test_what_only_the_real_call_has_fails_the_speculation(read: Any) -> None:
    async def look(ctx: Context, q: str) -> str:
        ctx.deps.note("ran")
        return str(read(ctx))

    result, trial = await speculated(look)

    assert transcript(result.all_messages()) == transcript((await plain(look)).all_messages())
    assert (trial.total.claims, trial.total.misses) == (0, 1)
    assert "before the model has made the call" in trial.speculation.report().turns[0].calls[0].reason


async def test_usage_of_a_claimed_delegation_counts_and_that_of_a_wasted_one_does_not() -> None:
    joker = Agent(Script("why?").model())

    async def look(ctx: Context, q: str) -> str:
        answer = await joker.run(q, usage=ctx.usage)
        ctx.deps.note("ran")
        return answer.output

    result, trial = await speculated(look)
    assert trial.total.claims == 1
    assert result.usage == (await plain(look)).usage
    assert result.usage.requests == 3

    never = Speculating("done", until=["ran"], drafts=Oracle(Script(*LOOKS)))
    result = await never.agent(look, deps_type=Happenings).run("go", deps=never.happenings)
    assert result.usage.requests == 1


async def test_a_retry_is_the_real_calls_own() -> None:
    asked: list[int] = []

    async def look(ctx: Context, q: str) -> str:
        asked.append(ctx.retry)
        ctx.deps.note("ran")
        raise ModelRetry(f"not {q}, again")

    async def error_of(agent: Agent[Any, Any]) -> str:
        with pytest.raises(Exception, match="exceeded max retries") as caught:
            await agent.run("go", deps=Happenings())
        return str(caught.value)

    answers = ([("look", {"q": "a"})], [("look", {"q": "b"})], "done")
    expected = await error_of(Agent(Script(*answers).model(), deps_type=Happenings, tools=[look]))
    assert asked == [0, 1]

    trial = Speculating(*answers, until=())
    assert await error_of(trial.agent(look, deps_type=Happenings)) == expected
    assert trial.total.claims == 0


async def test_a_speculation_that_takes_longer_than_the_tools_timeout_is_a_miss() -> None:
    trial = Speculating(until=["ran a"])

    async def look(q: str) -> str:
        found = await trial.look(q)
        if len(trial.runs) == 1:
            await asyncio.Event().wait()
        return found

    result = await trial.agent(Tool(look, timeout=0.05)).run("go")

    assert trial.runs == ["a", "a"]
    assert "found" in str(result.all_messages())
    assert "ModelRetry" in trial.speculation.report().turns[0].calls[0].reason


async def test_limits_of_usage_are_the_same() -> None:
    async def look(q: str) -> str:
        return q

    script = Script([("look", {"q": "a"})], [("look", {"q": "b"})], "done")
    for capabilities in ([], [SpeculateTools[None](Oracle(script), tools=["look"])]):
        agent = Agent(script.model(), tools=[look], capabilities=capabilities)
        with pytest.raises(UsageLimitExceeded):
            await agent.run("go", usage_limits=UsageLimits(tool_calls_limit=1))


async def test_a_session_cannot_run_a_tool_that_takes_a_context() -> None:
    @speculable
    async def look(ctx: Context, q: str) -> str:
        return q

    async with SpeculationSession([look], [StreamSpeculator()]) as session:
        with pytest.raises(ConfigurationError, match="SpeculateTools"):
            await session.acall(ToolCall("look", {"q": "a"}))
