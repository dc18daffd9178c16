"""The speculation bench: time saved against the optimum of Eq. 1, plain agents, and peers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from agentrt.errors import WorkloadNotFoundError

from ..common.bench_model import title_of
from ..common.machine import describe_machine
from ..common.repetitions import Seeds
from ..common.report import BenchReport, Table
from . import (
    controlled,
    frameworks,
    guards,
    like_for_like,
    models,
    nano,
    patterns,
    turn_overhead,
)
from .agent_tasks import agent_tasks
from .prices import PRICES

_TASKS = 64
_SEEDS = 5  # SpecTools §4.3 runs each experiment five times
_QUICK_SEEDS = 2
_MODELS_SEEDS = 1  # greedy models say the same in each repetition: more requests say more
_GUARDS_METHOD = (
    "guard_bypasses counts, over the guards of the table, runs of a tool whose only call was rejected and "
    "had been drafted long before, in virtual time; unguarded_claims counts the agents without a guard that "
    "claimed that draft."
)
_METHOD = "transcripts_equal is the share of all runs whose messages are those of the plain run but for ids."


def run(
    *,
    quick: bool,
    workloads: Path | None,
    progress: Callable[[str], None],
    seeds: Seeds | None = None,
    model: str | None = None,
    drafts: Sequence[str] = (),
) -> BenchReport:
    """Measure the time that speculation saves, and its cost where it saves none.

    ``workloads`` is a folder with BFCL's multi-turn tasks and recorded conversations; without the former
    the simulated runs use synthetic ones, without the latter the pattern part is left out. ``seeds`` are
    those of the repetitions: five, or two if ``quick``, where no count is given.

    With ``model`` and ``drafts`` (GGUF files, directories or embedded names) Figures 5 to 8 of SpecTools are
    measured with these as main model and draft models, and nothing else.

    Raises:
        WorkloadNotFoundError, WorkloadFormatError: the tasks cannot be read.
        ModelNotFoundError, ModelFormatError: a model cannot be opened.
    """
    drawn = (seeds or Seeds()).take(_QUICK_SEEDS if quick else _SEEDS)
    if model is not None:
        repeated = (seeds or Seeds()).take(_MODELS_SEEDS)
        return _run_models(model, drafts, quick, repeated, workloads, progress)
    machine = describe_machine()
    source, tasks = agent_tasks(workloads, _TASKS)
    pair = nano.measure_nano(quick=quick, progress=progress)
    size = controlled.QUICK if quick else controlled.FULL
    simulated = controlled.Controlled(tasks, size, drawn, progress)
    simulated.run()
    progress("the cost of speculating at all")
    overheads = turn_overhead.measure(200 if quick else 1000)
    generation_s = 0.1 if quick else 0.4
    turns = 10 if quick else 30
    runs = frameworks.measure_frameworks(turns, progress)
    progress("calls that a guard rejects")
    bypasses = guards.guard_bypasses()
    calls = like_for_like.QUICK_CALLS_A_TURN if quick else like_for_like.CALLS_A_TURN
    peers = like_for_like.measure_peers(tasks[: 1 if quick else 6], generation_s, calls, drawn, progress)
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
            "unpaced_fast_model_slowdown_pct": nano.slowdown_pct(pair.unpaced),
            **simulated.figures,
            **turn_overhead.figures(overheads),
            **frameworks.figures(runs),
            "guard_bypasses": float(sum(bypasses.values())),
            "unguarded_claims": float(guards.unguarded_claims()),
            **peers.figures,
            **patterns.figures(drafted),
            "transcripts_equal": equal / pairs,
        },
        tables=(
            nano.nano_table(f"nano pair, main model held to {nano.PACE:g} tokens/s", pair.paced),
            nano.nano_table("nano pair, unpaced", pair.unpaced),
            pair.by_samples,
            *simulated.tables,
            turn_overhead.table(overheads),
            frameworks.table(runs),
            Table(
                title="runs of tools whose calls a guard rejected, by guard",
                columns=("guard", "bypasses"),
                rows=tuple(bypasses.items()),
            ),
            peers.table,
            *([patterns.table(drafted)] if drafted else []),
        ),
        method=" ".join(
            (
                nano.METHOD.format(threads=pair.threads, pace=nano.PACE),
                controlled.METHOD.format(
                    source=source, scale=size.scale, seeds=len(drawn), each=size.fleet_each, prices=PRICES
                ),
                turn_overhead.METHOD,
                frameworks.METHOD.format(turns=turns),
                _GUARDS_METHOD,
                like_for_like.METHOD.format(
                    generation=generation_s, seeds=len(drawn), calls=" or ".join(map(str, calls))
                ),
                *([patterns.METHOD] if drafted else []),
                _METHOD,
            )
        ),
    )


def _run_models(
    model: str,
    drafts: Sequence[str],
    quick: bool,
    seeds: Sequence[int],
    workloads: Path | None,
    progress: Callable[[str], None],
) -> BenchReport:
    machine = describe_machine()
    threads = max(1, machine.usable_cores - 1)  # one core for the drafts
    source, bench = models.measure_models(
        model, drafts, quick=quick, seeds=seeds, threads=threads, workloads=workloads, progress=progress
    )
    return BenchReport(
        bench="speculation_models",
        machine=machine,
        figures=bench.figures,
        tables=tuple(bench.tables),
        method=models.METHOD.format(
            model=title_of(model),
            drafts=", ".join(map(title_of, drafts)),
            threads=threads,
            cores=machine.usable_cores,
            source=source,
            requests=bench.size.requests,
            seeds=len(seeds),
            prices=PRICES,
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
