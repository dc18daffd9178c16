"""Any run, with any drafts at any speed, has the transcript and usage of the run without speculation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="needs the extra pydantic-ai")

from hypothesis import example, given
from hypothesis import strategies as st
from pydantic_ai import Agent, ModelRetry, RunContext, Tool

from agentrt import DraftRequest, SpeculationConfig, ToolCall
from agentrt.adapters.pydantic_ai import SpeculateTools
from agentrt.testing import run_in_virtual_time
from tests.adapters.pydantic_ai.doubles import Call, Script, transcript
from tests.hypothesis_profiles import examples

pytestmark = pytest.mark.usefixtures("prediction_is_free")

TOOLS = ("read", "fail", "write", "context", "spend")
CALLS = st.tuples(st.sampled_from(TOOLS), st.fixed_dictionaries({"q": st.sampled_from("ab")}))
TURNS = st.lists(st.lists(CALLS, min_size=1, max_size=3), min_size=1, max_size=4)
DRAFTS = st.lists(st.tuples(st.booleans(), st.integers(0, 3), st.lists(CALLS, max_size=2)), max_size=4)
"""For each turn: whether its own calls are drafted, in how many seconds each, and other drafts."""


class Drafts:
    """Drafts calls of a turn, and others, at given times."""

    def __init__(
        self, turns: Sequence[Sequence[Call]], drafts: Sequence[tuple[bool, int, Sequence[Call]]]
    ) -> None:
        self._turns = turns
        self._drafts = drafts

    async def drafts(self, request: DraftRequest) -> AsyncIterator[ToolCall]:
        """Yield the drafts of the turn."""
        turn = sum(message["role"] == "assistant" for message in request.messages)
        if turn >= min(len(self._turns), len(self._drafts)):
            return
        right, delay, others = self._drafts[turn]
        for name, arguments in [*others, *(self._turns[turn] if right else ())]:
            await asyncio.sleep(delay)
            yield ToolCall(name, arguments)


class World:
    """Tools that take time, fail, write and read their context; what is read depends on what was written."""

    def __init__(self, seconds: int) -> None:
        self.seconds = seconds
        self.written = ""
        self.failed = False

    async def read(self, q: str) -> str:
        """Read what was written."""
        await asyncio.sleep(self.seconds)
        return f"{q}: {self.written}"

    async def write(self, q: str) -> str:
        """Write; it is not speculable."""
        await asyncio.sleep(self.seconds)
        self.written += q
        return "written"

    async def fail(self, q: str) -> str:
        """Ask the model to try again for one of two arguments."""
        await asyncio.sleep(self.seconds)
        if q == "a":
            raise ModelRetry("not a")
        return q

    async def context(self, ctx: RunContext[None], q: str) -> str:
        """Read what only the real call has."""
        await asyncio.sleep(self.seconds)
        return f"{q} of {ctx.tool_call_id}, {len(ctx.messages)}"

    async def spend(self, ctx: RunContext[None], q: str) -> str:
        """Spend some of the run's usage."""
        await asyncio.sleep(self.seconds)
        ctx.usage.requests += 1
        return q


def outcome(
    turns: Sequence[Sequence[Call]],
    seconds: int,
    generation: int,
    capabilities: Sequence[Any],
    streamed: bool,
) -> Any:
    async def main() -> Any:
        async def generate(turn: int) -> None:
            await asyncio.sleep(generation)

        world = World(seconds)
        tools = [Tool(getattr(world, name), sequential=name == "write") for name in TOOLS]
        agent = Agent(
            Script(*turns, "done", before=generate).model(), tools=tools, retries=9, capabilities=capabilities
        )
        if not streamed:
            result = await agent.run("go")
            return transcript(result.all_messages()), result.usage
        async with agent.run_stream("go") as stream:
            await stream.get_output()
            return transcript(stream.all_messages()), stream.usage

    return run_in_virtual_time(main)


@examples(60)
@given(
    turns=TURNS,
    drafts=DRAFTS,
    seconds=st.integers(0, 5),
    generation=st.integers(0, 5),
    streamed=st.booleans(),
)
@example(
    turns=[[("write", {"q": "a"}), ("read", {"q": "a"}), ("context", {"q": "a"})]],
    drafts=[(True, 1, [])],
    seconds=1,
    generation=5,
    streamed=False,
)
def test_the_transcript_and_the_usage_are_the_same(
    turns: list[list[Call]],
    drafts: list[tuple[bool, int, list[Call]]],
    seconds: int,
    generation: int,
    streamed: bool,
) -> None:
    speculation = SpeculateTools[Any](
        Drafts(turns, drafts),
        tools=["read", "fail", "context", "spend"],
        config=SpeculationConfig(wasted_second_weight=0),
        invalidated_by=["write"],
    )
    plain = outcome(turns, seconds, generation, [], streamed)

    assert outcome(turns, seconds, generation, [speculation], streamed) == plain
    total = speculation.report().total
    calls = sum(name != "write" for turn in turns for name, _ in turn)
    assert total.claims + total.misses == calls, str(speculation.report())
