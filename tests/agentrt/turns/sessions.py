"""Tools, drafts and whole sessions, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NamedTuple

from agentrt import SpeculationReport, SpeculationSession, ToolCall, speculable
from agentrt.testing import ScriptedSpeculator, run_in_virtual_time

Look = Callable[..., Coroutine[Any, Any, str]]


def slow_tool(seconds: float, runs: list[str], **options: Any) -> Look:
    @speculable(**options)
    async def look(q: str) -> str:
        runs.append(q)
        await asyncio.sleep(seconds)
        return f"found {q}"

    return look


def call(q: str, id: str | None = "call_1") -> ToolCall:
    return ToolCall("look", {"q": q}, id)


def drafting(*drafts: ToolCall | Exception, delay: float = 0.0) -> ScriptedSpeculator:
    """Return a predictor that drafts these calls in the first turn."""
    return ScriptedSpeculator(drafts, delay=delay)


def now() -> float:
    return asyncio.get_running_loop().time()


async def one_turn(session: SpeculationSession, generation: float, made: ToolCall) -> tuple[str, float]:
    started = now()
    with session.turn([], []) as turn:
        await asyncio.sleep(generation)
        turn.bind([made])
    return await session.acall(made), now() - started


class Driven(NamedTuple):
    """What came of a session."""

    results: list[Any]
    seconds: float
    """Until it was closed."""
    report: SpeculationReport


def drive(
    tools: Any,
    predictors: Any,
    *turns: Sequence[ToolCall],
    generation_s: float = 1.0,
    makes: bool = True,
    messages: Sequence[Any] = (),
    **options: Any,
) -> Driven:
    """Run a session in which the model answers with the calls of each of ``turns``, which are then made."""

    async def main() -> Driven:
        results: list[Any] = []
        listed = tools if isinstance(tools, list) else [tools]
        async with SpeculationSession(listed, predictors, **options) as session:
            for calls in turns:
                with session.turn(messages, []) as turn:
                    await asyncio.sleep(generation_s)
                    turn.bind(calls)
                results += [await session.acall(each) for each in calls if makes]
        return Driven(results, now(), session.report())

    return run_in_virtual_time(main)
