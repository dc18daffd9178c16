"""The speculation bench: time saved against the optimum of Eq. 1, plain agents, and peers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from agentrt.errors import WorkloadNotFoundError

from ..common.bench_model import title_of
from ..common.machine import describe_machine
from ..common.parts import SpeculationPart
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
from .agent_tasks import Task, agent_tasks
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


@dataclass(frozen=True, slots=True)
class _Measured:
    """What a part found."""

    figures: Mapping[str, float]
    tables: Sequence[Table]
    method: str
    equal: int = 0
    """Pairs of a plain and a speculating run with the same transcript."""
    pairs: int = 0


@dataclass(frozen=True, slots=True)
class _Work:
    """How much a part measures, and on what."""

    quick: bool
    workloads: Path | None
    seeds: Sequence[int]
    source: str
    tasks: Sequence[Task]
    progress: Callable[[str], None]


def run(
    *,
    quick: bool,
    workloads: Path | None,
    progress: Callable[[str], None],
    seeds: Seeds | None = None,
    model: str | None = None,
    drafts: Sequence[str] = (),
    parts: Collection[SpeculationPart] = tuple(SpeculationPart),
) -> BenchReport:
    """Measure the time that speculation saves, and its cost where it saves none.

    ``workloads`` is a folder with BFCL's multi-turn tasks and recorded conversations; without the former
    the simulated runs use synthetic ones, without the latter the pattern part is left out. ``seeds`` are
    those of the repetitions: five, or two if ``quick``, where no count is given.

    With ``model`` and ``drafts`` (GGUF files, directories or embedded names) Figures 5 to 8 of SpecTools are
    measured with these as main model and draft models, and no ``parts``.

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
    work = _Work(quick, workloads, drawn, source, tasks, progress)
    found = [measure(work) for part, measure in _PARTS.items() if part in parts]
    figures = {name: value for each in found for name, value in each.figures.items()}
    methods = [each.method for each in found if each.method]
    if pairs := sum(each.pairs for each in found):
        figures["transcripts_equal"] = sum(each.equal for each in found) / pairs
        methods.append(_METHOD)
    return BenchReport(
        bench="speculation",
        machine=machine,
        figures=figures,
        tables=tuple(table for each in found for table in each.tables),
        method=" ".join(methods),
    )


def _nano(work: _Work) -> _Measured:
    pair = nano.measure_nano(quick=work.quick, progress=work.progress)
    paced, unpaced = nano.nano_figures(pair.paced), nano.nano_figures(pair.unpaced)
    settings = [*pair.paced, *pair.unpaced]
    return _Measured(
        {
            **paced,
            "time_saved_pct_unpaced": unpaced["time_saved_pct"],
            "model_optimum_pct_unpaced": unpaced["model_optimum_pct"],
            "claim_rate_unpaced": unpaced["claim_rate"],
            "unpaced_fast_model_slowdown_pct": nano.slowdown_pct(pair.unpaced),
        },
        (
            nano.nano_table(f"nano pair, main model held to {nano.PACE:g} tokens/s", pair.paced),
            nano.nano_table("nano pair, unpaced", pair.unpaced),
            pair.by_samples,
        ),
        nano.METHOD.format(threads=pair.threads, pace=nano.PACE),
        sum(each.equal for each in settings),
        sum(each.pairs for each in settings),
    )


def _simulated(work: _Work) -> _Measured:
    size = controlled.QUICK if work.quick else controlled.FULL
    simulated = controlled.Controlled(work.tasks, size, work.seeds, work.progress)
    simulated.run()
    method = controlled.METHOD.format(
        source=work.source, scale=size.scale, seeds=len(work.seeds), each=size.fleet_each, prices=PRICES
    )
    return _Measured(simulated.figures, simulated.tables, method, simulated.equal, simulated.pairs)


def _overhead(work: _Work) -> _Measured:
    work.progress("the cost of speculating at all")
    overheads = turn_overhead.measure(200 if work.quick else 1000)
    return _Measured(
        turn_overhead.figures(overheads), (turn_overhead.table(overheads),), turn_overhead.METHOD
    )


def _frameworks(work: _Work) -> _Measured:
    turns = 10 if work.quick else 30
    runs = frameworks.measure_frameworks(turns, work.progress)
    return _Measured(
        frameworks.figures(runs), (frameworks.table(runs),), frameworks.METHOD.format(turns=turns)
    )


def _guards(work: _Work) -> _Measured:
    work.progress("calls that a guard rejects")
    bypasses = guards.guard_bypasses()
    return _Measured(
        {
            "guard_bypasses": float(sum(bypasses.values())),
            "unguarded_claims": float(guards.unguarded_claims()),
        },
        (
            Table(
                title="runs of tools whose calls a guard rejected, by guard",
                columns=("guard", "bypasses"),
                rows=tuple(bypasses.items()),
            ),
        ),
        _GUARDS_METHOD,
    )


def _peers(work: _Work) -> _Measured:
    generation_s = 0.1 if work.quick else 0.4
    calls = like_for_like.QUICK_CALLS_A_TURN if work.quick else like_for_like.CALLS_A_TURN
    tasks = work.tasks[: 1 if work.quick else 6]
    peers = like_for_like.measure_peers(tasks, generation_s, calls, work.seeds, work.progress)
    method = like_for_like.METHOD.format(
        generation=generation_s, seeds=len(work.seeds), calls=" or ".join(map(str, calls))
    )
    return _Measured(peers.figures, (peers.table,), method, sum(peers.equal), len(peers.equal))


def _patterns(work: _Work) -> _Measured:
    if work.workloads is None:
        return _Measured({}, (), "")
    try:
        drafted = patterns.measure(work.workloads, quick=work.quick, progress=work.progress)
    except WorkloadNotFoundError as error:
        work.progress(str(error))
        return _Measured({}, (), "")
    return _Measured(patterns.figures(drafted), (patterns.table(drafted),), patterns.METHOD)


_PARTS: Final[Mapping[SpeculationPart, Callable[[_Work], _Measured]]] = {
    SpeculationPart.NANO: _nano,
    SpeculationPart.SIMULATED: _simulated,
    SpeculationPart.OVERHEAD: _overhead,
    SpeculationPart.FRAMEWORKS: _frameworks,
    SpeculationPart.GUARDS: _guards,
    SpeculationPart.PEERS: _peers,
    SpeculationPart.PATTERNS: _patterns,
}


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
