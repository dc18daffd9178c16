"""Overhead of a turn on each path: CPU time beyond a plain turn, where its call claims a speculation, and
where no predictor is run because that does not pay."""

from __future__ import annotations

import asyncio
import gc
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agentrt.testing import free_prediction
from agentrt.tools.speculable import speculable
from agentrt.turns.session import SpeculationSession

from ..common.process import SideProcess
from ..common.report import Table
from .overhead_turns import (
    HISTORY,
    MODEL_S,
    TOOL_S,
    Find,
    FixedDraft,
    Outcomes,
    Turn,
    plain_langchain_turn,
    plain_turn,
    session_turn,
    speculative_langchain_turn,
)

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
    """Milliseconds of CPU time in a turn of one path: plain, with a claim, and without a predictor run."""

    path: str
    plain_ms: float
    claimed_ms: float
    skipped_ms: float
    claimed: float
    """Share of the turns with right drafts that claimed."""

    @property
    def claim_adds_ms(self) -> float:
        """What speculation adds to a turn with a claim."""
        return self.claimed_ms - self.plain_ms

    @property
    def skip_adds_ms(self) -> float:
        """What it adds to a turn in which no predictor is run."""
        return self.skipped_ms - self.plain_ms


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


@dataclass(frozen=True, slots=True)
class _Side:
    """One kind of turn: ``run`` runs one; ``count`` goes up with each that is of this kind."""

    run: Turn
    count: Callable[[], int] | None = None


async def _measure(turns: int) -> list[PathOverhead]:
    right, wrong = FixedDraft(right=True), FixedDraft(right=False)
    claimed, skipped, own_claimed, own_skipped = (Outcomes() for _ in range(4))
    find, other = Find(), Find()
    early, also_early = (speculable(max_concurrency=64)(each.run) for each in (find, other))
    async with (
        SpeculationSession([early], [right], observers=[own_claimed]) as session,
        SpeculationSession([also_early], [wrong], observers=[own_skipped]) as without,
    ):
        sides = [
            _Side(plain_langchain_turn()),
            _Side(speculative_langchain_turn(right, claimed), lambda: claimed.claimed),
            _Side(speculative_langchain_turn(wrong, skipped), lambda: skipped.skipped),
            _Side(plain_turn()),
            _Side(session_turn(session, find, right=True), lambda: own_claimed.claimed),
            _Side(session_turn(without, other, right=False), lambda: own_skipped.skipped),
        ]
        ms = await _cpu_ms(sides, turns)
    made = turns + _WARM
    return [
        PathOverhead("LangChain", ms[0], ms[1], ms[2], claimed.claimed / made),
        PathOverhead("session", ms[3], ms[4], ms[5], own_claimed.claimed / made),
    ]


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
            (
                each.path,
                round(each.plain_ms, 3),
                round(each.claim_adds_ms, 3),
                round(each.skip_adds_ms, 3),
                round(each.claimed, 3),
            )
            for each in measured
        ),
    )


async def _cpu_ms(sides: Sequence[_Side], turns: int) -> list[float]:
    spent: list[list[float]] = [[] for _ in sides]
    gc.collect()
    gc.disable()
    try:
        for turn in range(_WARM + turns):
            for side, each in enumerate(sides):
                before = each.count() if each.count else 0
                began = time.process_time_ns()
                await each.run()
                for _ in range(_LOOP_STEPS):
                    await asyncio.sleep(0)
                ms = (time.process_time_ns() - began) / 1e6
                if turn >= _WARM and (each.count is None or each.count() > before):
                    spent[side].append(ms)
            if turn % _COLLECT_EVERY == 0:
                gc.collect()
    finally:
        gc.enable()
    return [statistics.median(each) for each in spent]
