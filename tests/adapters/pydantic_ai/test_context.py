"""Tools that take a `RunContext`: the run's own dependencies, and nothing that only the real call has."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
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
from tests.adapters.pydantic_ai.doubles import Happenings, Oracle, Script, settled, transcript
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.usefixtures("prediction_is_free")


@dataclass
class Office:
    """Dependencies that no schema can describe."""

    happenings: Happenings
    lock: asyncio.Lock


def speculating(
    tool: Any, *, event: str = "ran"
) -> tuple[Agent[Office, str], SpeculateTools[Office], Office]:
    """Return an agent that calls ``look`` once its speculation has come to ``event``."""
    office = Office(Happenings(), asyncio.Lock())

    async def until_speculated(turn: int) -> None:
        if turn == 0:
            await office.happenings.until(event)
            await settled()

    script = Script([("look", {"q": "a"})], "done", before=until_speculated)
    speculation = SpeculateTools[Office](
        Oracle(script), tools=["look"], observers=[office.happenings], max_concurrency=1
    )
    agent = Agent(script.model(), deps_type=Office, tools=[tool], capabilities=[speculation])
    return agent, speculation, office


def test_a_declared_tool_gets_the_dependencies_of_its_run() -> None:
    @speculable(ttl=5)
    async def look(ctx: RunContext[Office], q: str) -> str:
        async with ctx.deps.lock:
            ctx.deps.happenings.note("ran")
        return f"{q} in run {ctx.run_id}"

    async def main() -> None:
        agent, speculation, office = speculating(look)
        result = await agent.run("go", deps=office)

        assert office.happenings.seen.count("ran") == 1
        assert f"a in run {result.run_id}" in str(result.all_messages())
        assert speculation.report().total.claims == 1

    asyncio.run(main())


def test_a_sync_tool_gets_them_too() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()

        def look(ctx: RunContext[Office], q: str) -> str:
            loop.call_soon_threadsafe(ctx.deps.happenings.note, "ran")
            return f"{q} by {ctx.tool_name}, {ctx.retry}"

        agent, speculation, office = speculating(look)
        result = await agent.run("go", deps=office)

        assert office.happenings.seen.count("ran") == 1
        assert "a by look, 0" in str(result.all_messages())
        assert speculation.report().total.claims == 1

    asyncio.run(main())


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
def test_what_only_the_real_call_has_fails_the_speculation(read: Any) -> None:
    async def main() -> None:
        async def look(ctx: RunContext[Office], q: str) -> str:
            ctx.deps.happenings.note("ran")
            return str(read(ctx))

        script = Script([("look", {"q": "a"})], "done")
        plain = await Agent(script.model(), deps_type=Office, tools=[look]).run(
            "go", deps=Office(Happenings(), asyncio.Lock())
        )
        agent, speculation, office = speculating(look)
        result = await agent.run("go", deps=office)

        assert transcript(result.all_messages()) == transcript(plain.all_messages())
        total = speculation.report().total
        assert (total.claims, total.misses) == (0, 1)
        assert "before the model has made the call" in speculation.report().turns[0].calls[0].reason

    asyncio.run(main())


def test_usage_of_a_claimed_delegation_counts_and_that_of_a_wasted_one_does_not() -> None:
    async def main() -> None:
        joker = Agent(Script("why?").model())

        async def look(ctx: RunContext[Office], q: str) -> str:
            answer = await joker.run(q, usage=ctx.usage)
            ctx.deps.happenings.note("ran")
            return answer.output

        script = Script([("look", {"q": "a"})], "done")
        plain = await Agent(script.model(), deps_type=Office, tools=[look]).run(
            "go", deps=Office(Happenings(), asyncio.Lock())
        )
        agent, speculation, office = speculating(look)
        result = await agent.run("go", deps=office)
        assert speculation.report().total.claims == 1
        assert result.usage == plain.usage
        assert result.usage.requests == 3

        never = Script("done", before=lambda turn: office.happenings.until("ran", 2))
        idle = SpeculateTools[Office](Oracle(Script([("look", {"q": "a"})])), tools=["look"])
        result = await Agent(never.model(), deps_type=Office, tools=[look], capabilities=[idle]).run(
            "go", deps=office
        )
        assert result.usage.requests == 1

    asyncio.run(main())


def test_a_retry_is_the_real_calls_own() -> None:
    async def main() -> None:
        asked: list[int] = []

        async def look(ctx: RunContext[Office], q: str) -> str:
            asked.append(ctx.retry)
            ctx.deps.happenings.note("ran")
            raise ModelRetry(f"not {q}, again")

        async def transcript_of(agent: Agent[Office, str], office: Office) -> Any:
            with pytest.raises(Exception, match="exceeded max retries") as caught:
                await agent.run("go", deps=office)
            return str(caught.value)

        answers = ([("look", {"q": "a"})], [("look", {"q": "b"})], "done")
        plain = Agent(Script(*answers).model(), deps_type=Office, tools=[look])
        expected = await transcript_of(plain, Office(Happenings(), asyncio.Lock()))
        assert asked == [0, 1]

        script = Script(*answers)
        speculation = SpeculateTools[Office](Oracle(script), tools=["look"])
        agent = Agent(script.model(), deps_type=Office, tools=[look], capabilities=[speculation])
        assert await transcript_of(agent, Office(Happenings(), asyncio.Lock())) == expected
        assert speculation.report().total.claims == 0

    asyncio.run(main())


def test_a_speculation_that_takes_longer_than_the_tools_timeout_is_a_miss() -> None:
    async def main() -> None:
        runs: list[str] = []
        began = asyncio.Event()

        async def look(q: str) -> str:
            runs.append(q)
            began.set()
            if len(runs) == 1:
                await asyncio.Event().wait()
            return "found"

        async def until_began(turn: int) -> None:
            await asyncio.wait_for(began.wait(), PATIENCE_S)

        script = Script([("look", {"q": "a"})], "done", before=until_began)
        speculation = SpeculateTools[None](Oracle(script), tools=["look"])
        agent = Agent(script.model(), tools=[Tool(look, timeout=0.05)], capabilities=[speculation])
        result = await agent.run("go")

        assert runs == ["a", "a"]
        assert "found" in str(result.all_messages())
        assert "ModelRetry" in speculation.report().turns[0].calls[0].reason

    asyncio.run(main())


def test_limits_of_usage_are_the_same() -> None:
    async def main() -> None:
        async def look(q: str) -> str:
            return q

        script = Script([("look", {"q": "a"})], [("look", {"q": "b"})], "done")
        for capabilities in ([], [SpeculateTools[None](Oracle(script), tools=["look"])]):
            agent = Agent(script.model(), tools=[look], capabilities=capabilities)
            with pytest.raises(UsageLimitExceeded):
                await agent.run("go", usage_limits=UsageLimits(tool_calls_limit=1))

    asyncio.run(main())


def test_a_session_cannot_run_a_tool_that_takes_a_context() -> None:
    @speculable
    async def look(ctx: RunContext[Office], q: str) -> str:
        return q

    async def main() -> None:
        async with SpeculationSession([look], [StreamSpeculator()]) as session:
            with pytest.raises(ConfigurationError, match="SpeculateTools"):
                await session.acall(ToolCall("look", {"q": "a"}))

    asyncio.run(main())
