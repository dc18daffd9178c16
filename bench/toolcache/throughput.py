"""Tokens per second of agents that run at one time (SpecTools §5)."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Sequence

from .agents import Agent
from .clients import Clients
from .sides import Side
from .tasks import Task
from .tools import ChancePredictor, TaskTools

AGENTS = 8


async def tokens_per_second(clients: Clients, side: Side, tasks: Sequence[Task], seed: str) -> float:
    """Return the mean over :data:`AGENTS` agents of the tokens per second of each, with right drafts.

    The agents start at one time, and each runs its share of ``tasks`` one after the other.
    """
    tools = TaskTools(tasks)
    agent = Agent(clients, side, tools, ChancePredictor(tasks, 1.0, seed))

    async def work(share: Sequence[Task]) -> float:
        began = time.perf_counter()
        written = sum([(await agent.do(task)).written_tokens for task in share])
        return written / (time.perf_counter() - began)

    shares = [tasks[number::AGENTS] for number in range(AGENTS)]
    return statistics.fmean(await asyncio.gather(*(work(share) for share in shares if share)))
