"""agentrt against its peers: on the same information, and with simulated drafts, which know more.

The peers start a call as soon as its arguments are complete in the stream; they predict none.
``StreamSpeculator`` has the same information; a predictor that drafts before the model has written anything
has more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agentrt.concurrency.clock import monotonic

from ..common.estimates import Estimate, median
from .agent_tasks import Task
from .eager_tools_peer import EAGER_TOOLS, eager_tools_sides
from .openai_peer import EAGER_RUNNER, openai_sides
from .timed_agents import SAME_INFORMATION, SIMULATED_DRAFTS, Sides, TimedWorld, Times

METHOD = """\
Peers: eager-tools-langgraph beside a LangGraph agent, and OpenAI's eager runner beside a loop on the \
OpenAI client, on the same streamed answers of one or more calls a turn, which take 60 % of an answer's \
time; T is normally distributed around G with a spread of 50 %, sides in turn. The peers start a call when \
its arguments are complete in the stream. 'Same information' is agentrt with StreamSpeculator, which sees \
just that; 'simulated drafts' adds a predictor that knows the tasks and is right in four turns of five, \
which the peers have no place for. A ratio is the peer's time by agentrt's over all tasks of a seed, each \
seed with tasks of its own: the median over the seeds, with its 90 % interval."""
CALLS_A_TURN = (1, 4)
QUICK_CALLS_A_TURN = (2,)
SPREAD = 0.5  # of the tools' times: where all take equally long, the last call alone decides
PEERS: Sequence[tuple[str, str, Callable[[TimedWorld], Sides]]] = (
    (EAGER_TOOLS, "eager_tools", eager_tools_sides),
    (EAGER_RUNNER, "openai_eager_runner", openai_sides),
)
"""The peers, their names in figures, and what makes their sides and ours."""


@dataclass(frozen=True, slots=True)
class Timed:
    """What one side needed for all tasks, in seconds, and what it said."""

    seconds: float
    transcripts: list[Any]


def measure_peers(
    dealt: Sequence[Sequence[Task]],
    generation_s: float,
    calls_a_turn: Sequence[int],
    seeds: Sequence[int],
    progress: Callable[[str], None],
) -> tuple[dict[str, Estimate], list[bool]]:
    """Measure both peers with each number of calls a turn; ``dealt`` has the tasks of each seed.

    Returns the figures, and for each run whether the transcripts of all sides are equal.
    """
    times = Times(generation_s, generation_s / 10, generation_s, SPREAD)
    equal: list[bool] = []
    figures: dict[str, Estimate] = {}
    for peer, name, sides_of in PEERS:
        totals: dict[str, list[float]] = {}
        for calls in calls_a_turn:
            progress(f"{peer}, {calls} call(s) a turn")
            runs = [
                asyncio.run(compare(sides_of, own, replace(times, seed=seed), calls))
                for own, seed in zip(dealt, seeds, strict=True)
            ]
            equal += [_all_equal(each) for each in runs]
            for side in runs[0]:
                before = totals.get(side, [0.0] * len(seeds))
                totals[side] = [a + each[side].seconds for a, each in zip(before, runs, strict=True)]
        for side, suffix in ((SAME_INFORMATION, "same_information"), (SIMULATED_DRAFTS, "simulated_drafts")):
            ratios = [theirs / ours for theirs, ours in zip(totals[peer], totals[side], strict=True)]
            figures[f"ratio_vs_{name}_{suffix}"] = median(ratios)
    return figures, equal


async def compare(
    sides_of: Callable[[TimedWorld], Sides], tasks: Sequence[Task], times: Times, calls_a_turn: int
) -> dict[str, Timed]:
    """Let every side do the first task once without counting it, and then each task, the sides in turn."""
    sides = sides_of(TimedWorld(tasks, times, calls_a_turn))
    for do in sides.values():
        await do(tasks[0].request)
    seconds = dict.fromkeys(sides, 0.0)
    said: dict[str, list[Any]] = {name: [] for name in sides}
    for task in tasks:
        for name, do in sides.items():
            began = monotonic()
            said[name].append(await do(task.request))
            seconds[name] += monotonic() - began
    return {name: Timed(seconds[name], said[name]) for name in sides}


def _all_equal(sides: dict[str, Timed]) -> bool:
    first, *others = (side.transcripts for side in sides.values())
    return all(other == first for other in others)
