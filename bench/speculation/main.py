"""The speculation bench: time saved against the optimum of Eq. 1, plain agents, and peers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from agentrt.errors import WorkloadNotFoundError

from ..common.machine import describe_machine
from ..common.repetitions import Seeds
from ..common.report import BenchReport
from . import controlled, like_for_like, nano, overhead, patterns
from .agent_tasks import agent_tasks
from .prices import PRICES

_TASKS = 64
_SEEDS = 5  # SpecTools §4.3 runs each experiment five times
_QUICK_SEEDS = 2
_METHOD = "transcripts_equal is the share of all runs whose messages are those of the plain run but for ids."


def run(
    *, quick: bool, workloads: Path | None, progress: Callable[[str], None], seeds: Seeds | None = None
) -> BenchReport:
    """Measure the time that speculation saves, and its cost where it saves none.

    ``workloads`` is a folder with BFCL's multi-turn tasks and recorded conversations; without the former
    the simulated runs use synthetic ones, without the latter the pattern part is left out. ``seeds`` are
    those of the repetitions: five, or two if ``quick``, where no count is given.
    """
    machine = describe_machine()
    source, tasks = agent_tasks(workloads, _TASKS)
    drawn = (seeds or Seeds()).take(_QUICK_SEEDS if quick else _SEEDS)
    pair = nano.measure_nano(quick=quick, progress=progress)
    size = controlled.QUICK if quick else controlled.FULL
    simulated = controlled.Controlled(tasks, size, drawn, progress)
    simulated.run()
    progress("the cost of speculating at all")
    median_ms, p99_ms = asyncio.run(overhead.overhead_ms(300 if quick else 2000))
    generation_s = 0.1 if quick else 0.4
    peers = like_for_like.measure_peers(tasks[: 1 if quick else 6], generation_s, drawn, progress)
    drafted = _patterns(quick, workloads, progress)
    paced, unpaced = nano.nano_figures(pair.paced), nano.nano_figures(pair.unpaced)
    settings = [*pair.paced, *pair.unpaced]
    equal = sum(each.equal for each in settings) + simulated.equal + sum(peers.equal)
    pairs = sum(each.pairs for each in settings) + simulated.pairs + len(peers.equal)
    return BenchReport(
        bench="speculation",
        machine=machine,
        figures={
            **paced,
            "time_saved_pct_unpaced": unpaced["time_saved_pct"],
            "model_optimum_pct_unpaced": unpaced["model_optimum_pct"],
            "claim_rate_unpaced": unpaced["claim_rate"],
            **simulated.figures,
            "sdk_overhead_ms_per_turn_p50": median_ms,
            "sdk_overhead_ms_per_turn_p99": p99_ms,
            **peers.figures,
            **patterns.figures(drafted),
            "transcripts_equal": equal / pairs,
        },
        tables=(
            nano.nano_table(f"nano pair, main model held to {nano.PACE:g} tokens/s", pair.paced),
            nano.nano_table("nano pair, unpaced", pair.unpaced),
            pair.by_samples,
            *simulated.tables,
            peers.table,
            *([patterns.table(drafted)] if drafted else []),
        ),
        method=" ".join(
            (
                nano.METHOD.format(threads=pair.threads, pace=nano.PACE),
                controlled.METHOD.format(
                    source=source, scale=size.scale, seeds=len(drawn), each=size.fleet_each, prices=PRICES
                ),
                overhead.METHOD,
                like_for_like.METHOD.format(generation=generation_s, seeds=len(drawn)),
                *([patterns.METHOD] if drafted else []),
                _METHOD,
            )
        ),
    )


def _patterns(
    quick: bool, workloads: Path | None, progress: Callable[[str], None]
) -> list[patterns.PatternResult]:
    if workloads is None:
        return []
    try:
        return patterns.measure(workloads, quick=quick, progress=progress)
    except WorkloadNotFoundError as error:
        progress(str(error))
        return []
