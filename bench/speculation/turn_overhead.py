"""Overhead of a turn on each path: CPU time beyond a plain turn, where its call claims a speculation."""

from __future__ import annotations

import asyncio
import gc
import statistics
import time
from collections.abc import Sequence

from agentrt.testing import free_prediction
from agentrt.turns.session import SpeculationSession

from ..common.process import SideProcess
from .overhead_turns import HISTORY, MODEL_S, TOOL_S, Side, Turn, langchain_turn, plain_turn, session_turn

_WARM = 30
_COLLECT_EVERY = 50  # turns
_LOOP_STEPS = 8  # until the tasks of a turn have ended
METHOD = f"""\
sdk_overhead_claimed_turn_ms_p50: CPU time of the process in a turn whose one call claims its speculation, \
less that of the same turn without speculation, median of the turns, on the path that costs more. The model \
awaits {1000 * MODEL_S:g} ms, and the end of its call's speculation if there is one, the tool \
{1000 * TOOL_S:g} ms, the history has {HISTORY} messages, prediction counts as free, the sides are \
interleaved, garbage is collected between turns, and turns that did not claim are left out \
(sdk_overhead_turns_claimed is the share that claimed)."""


def overhead_figures(turns: int) -> dict[str, float]:
    """Measure ``turns`` turns of each kind on each path; return the figures of the path that costs more.

    In a process of its own: threads that earlier parts of a bench have left behind take CPU time, too.
    """
    with SideProcess(_Process) as side:
        figures: dict[str, float] = side.call("measure", turns)
        return figures


class _Process:
    def measure(self, turns: int) -> dict[str, float]:
        with free_prediction():
            return asyncio.run(_measure(turns))


async def _measure(turns: int) -> dict[str, float]:
    langchain, own = ([Side(speculates=each) for each in (False, True)] for _ in range(2))
    async with SpeculationSession([own[1].speculable_find()], [own[1]], observers=[own[1]]) as session:
        runs = [
            *((side, langchain_turn(side)) for side in langchain),
            (own[0], plain_turn(own[0])),
            (own[1], session_turn(own[1], session)),
        ]
        plain, claimed, plain_own, claimed_own = await _cpu_ms(runs, turns)
    return {
        "sdk_overhead_claimed_turn_ms_p50": max(claimed - plain, claimed_own - plain_own),
        "sdk_overhead_turns_claimed": min(side.claimed / side.turns for side in (langchain[1], own[1])),
    }


async def _cpu_ms(sides: Sequence[tuple[Side, Turn]], turns: int) -> list[float]:
    spent: list[list[float]] = [[] for _ in sides]
    gc.collect()
    gc.disable()
    try:
        for turn in range(_WARM + turns):
            for (side, run), milliseconds in zip(sides, spent, strict=True):
                before = side.counted
                began = time.process_time_ns()
                await run()
                for _ in range(_LOOP_STEPS):
                    await asyncio.sleep(0)
                ms = (time.process_time_ns() - began) / 1e6
                if turn >= _WARM and side.counted > before:
                    milliseconds.append(ms)
            if turn % _COLLECT_EVERY == 0:
                gc.collect()
    finally:
        gc.enable()
    return [statistics.median(each) for each in spent]
