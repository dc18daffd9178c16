"""Overhead of a turn on each path: CPU time beyond a plain turn, where its call claims a speculation, and
where no predictor is run because that does not pay."""

from __future__ import annotations

import asyncio
import gc
import statistics
import time
from collections.abc import Sequence
from dataclasses import astuple, dataclass

from agentrt.testing import free_prediction
from agentrt.turns.session import SpeculationSession

from ..common.process import SideProcess
from ..common.report import Table
from .overhead_turns import HISTORY, MODEL_S, TOOL_S, Side, Turn, langchain_turn, plain_turn, session_turn

_WARM = 30  # after 16 wrong drafts in a row a predictor is only probed
_COLLECT_EVERY = 50  # turns
_LOOP_STEPS = 8  # until the tasks of a turn have ended
METHOD = (
    f"sdk_overhead_claimed_turn_ms_p50: CPU time of the process in a turn whose one call claims its "
    f"speculation, less that of the same turn without speculation, median of the turns, on the path that "
    f"costs more; sdk_overhead_skipped_turn_ms_p50: the same of turns in which the controller does not run "
    f"the predictor, whose drafts were never right. The model awaits {1000 * MODEL_S:g} ms, and the end of "
    f"its call's speculation if there is one, the tool {1000 * TOOL_S:g} ms, the history has {HISTORY} "
    f"messages, the controller takes prediction to be free and so does not depend on the machine's load, the "
    f"sides are interleaved, garbage is collected between turns, and turns that did not claim, or were a "
    f"probe, are left out (sdk_overhead_turns_claimed is the share that claimed)."
)


@dataclass(frozen=True, slots=True)
class PathOverhead:
    """Milliseconds of CPU time in a plain turn of one path, and what speculation adds."""

    path: str
    plain_ms: float
    claim_adds_ms: float
    """To a turn with a claim."""
    skip_adds_ms: float
    """To a turn in which no predictor is run."""
    claimed: float
    """Share of the turns with right drafts that claimed."""


def measure(turns: int) -> list[PathOverhead]:
    """Measure ``turns`` turns of each kind on each path.

    In a process of its own: threads that earlier parts of a bench have left behind take CPU time, too.
    """
    with SideProcess(_Process) as side:
        measured: list[PathOverhead] = side.call("measure", turns)
        return measured


class _Process:
    def measure(self, turns: int) -> list[PathOverhead]:
        with free_prediction():
            return asyncio.run(_measure(turns))


async def _measure(turns: int) -> list[PathOverhead]:
    langchain = [Side(right) for right in (None, True, False)]
    plain, right, wrong = own = [Side(right) for right in (None, True, False)]
    async with (
        SpeculationSession([right.speculable_find()], [right], observers=[right]) as with_claims,
        SpeculationSession([wrong.speculable_find()], [wrong], observers=[wrong]) as without,
    ):
        runs = [
            *((side, langchain_turn(side)) for side in langchain),
            (plain, plain_turn(plain)),
            (right, session_turn(right, with_claims)),
            (wrong, session_turn(wrong, without)),
        ]
        ms = await _cpu_ms(runs, turns)
    return [
        PathOverhead(path, ms[at], ms[at + 1] - ms[at], ms[at + 2] - ms[at], side.claimed / side.turns)
        for path, at, side in (("LangChain", 0, langchain[1]), ("session", 3, own[1]))
    ]


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


def figures(measured: Sequence[PathOverhead]) -> dict[str, float]:
    """The overheads on the path that costs more, and the least share of turns that claimed."""
    return {
        "sdk_overhead_claimed_turn_ms_p50": max(each.claim_adds_ms for each in measured),
        "sdk_overhead_skipped_turn_ms_p50": max(each.skip_adds_ms for each in measured),
        "sdk_overhead_turns_claimed": min(each.claimed for each in measured),
    }


def table(measured: Sequence[PathOverhead]) -> Table:
    """One row a path."""
    return Table(
        title="CPU time of a turn",
        columns=("path", "plain ms", "a claim adds ms", "no predictor run adds ms", "turns claimed"),
        rows=tuple(
            (path, *(round(number, 3) for number in numbers)) for path, *numbers in map(astuple, measured)
        ),
    )
