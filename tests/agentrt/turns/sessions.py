"""A slow tool, and a turn of a session, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from agentrt import SpeculationSession, ToolCall, speculable

Look = Callable[..., Coroutine[Any, Any, str]]


def slow_tool(seconds: float, runs: list[str]) -> Look:
    @speculable
    async def look(q: str) -> str:
        runs.append(q)
        await asyncio.sleep(seconds)
        return f"found {q}"

    return look


def call(q: str, id: str = "call_1") -> ToolCall:
    return ToolCall("look", {"q": q}, id)


def now() -> float:
    return asyncio.get_running_loop().time()


async def one_turn(session: SpeculationSession, generation: float, made: ToolCall) -> tuple[str, float]:
    started = now()
    with session.turn([], []) as turn:
        await asyncio.sleep(generation)
        turn.bind([made])
    return await session.acall(made), now() - started
