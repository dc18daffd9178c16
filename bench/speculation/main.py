"""The speculation bench: time saved against the optimum of Eq. 1, plain agents, and peers."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from agentrt.errors import WorkloadNotFoundError
from agentrt.testing import free_prediction, run_in_virtual_time

from ..common.estimates import Estimate, share
from ..common.machine import describe_machine
from ..common.parts import SpeculationPart
from ..common.report import BenchReport, Seeds, Table
from . import (
    controlled,
    hit_rates,
    like_for_like,
    models,
    pattern_agents,
    patterns,
    turn_overhead,
)
from .agent_tasks import Task, agent_tasks
from .timed_agents import hands

_TASKS = 64
_SEEDS = 5  # SpecTools §4.3 runs each experiment five times
_QUICK_SEEDS = 2
_PEER_TASKS = 2
"""Tasks of each seed on which the peers are measured."""
_METHOD = "transcripts_equal is the share of all runs whose messages are those of the plain run but for ids."


@dataclass(frozen=True, slots=True)
class _Measured:
    """What a part found."""

    figures: Mapping[str, Estimate]
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
    parts: Collection[SpeculationPart] = (),
) -> BenchReport:
    """Measure the time that speculation saves, and its cost where it saves none.

    ``workloads`` is a folder with BFCL's multi-turn tasks and recorded conversations; without the former
    the simulated runs use synthetic ones, without the latter the pattern part is left out. ``seeds`` are
    those of the repetitions: five, or two if ``quick``, where no count is given.

    With ``model`` and ``drafts`` (GGUF files, directories or embedded names) Figures 5 to 8 of SpecTools are
    measured with these as main model and draft models, or the part ``SAMPLES``, which needs them. Without
    ``parts`` all others are measured.

    Raises:
        WorkloadNotFoundError, WorkloadFormatError: the tasks cannot be read.
        ModelNotFoundError, ModelFormatError: a model cannot be opened.
    """
    seeds = seeds or Seeds()
    if model is not None:
        of_models = hit_rates.run_hit_rates if SpeculationPart.SAMPLES in parts else models.run_models
        return of_models(model, drafts, quick=quick, seeds=seeds, workloads=workloads, progress=progress)
    machine = describe_machine()
    tasks = agent_tasks(workloads, _TASKS)
    work = _Work(quick, workloads, seeds.take(_QUICK_SEEDS if quick else _SEEDS), tasks, progress)
    found = [measure(work) for part, measure in _PARTS.items() if part in parts or not parts]
    figures = {name: value for each in found for name, value in each.figures.items()}
    methods = [each.method for each in found if each.method]
    if pairs := sum(each.pairs for each in found):
        figures["transcripts_equal"] = share(sum(each.equal for each in found), pairs)
        methods.append(_METHOD)
    return BenchReport(
        bench="speculation",
        machine=machine,
        figures=figures,
        tables=tuple(table for each in found for table in each.tables),
        method=" ".join(methods),
    )


def _simulated(work: _Work) -> _Measured:
    size = controlled.QUICK if work.quick else controlled.FULL
    simulated = controlled.Controlled(work.tasks, size, work.seeds, work.progress)
    asyncio.run(simulated.measure())
    with free_prediction():
        run_in_virtual_time(simulated.sweep)
    tables = simulated.tables
    return _Measured(simulated.figures, tables, controlled.METHOD, simulated.equal, simulated.pairs)


def _overhead(work: _Work) -> _Measured:
    work.progress("the cost of speculating at all")
    figures = turn_overhead.overhead_figures(200 if work.quick else 500)
    return _Measured(figures, (), turn_overhead.METHOD)


def _peers(work: _Work) -> _Measured:
    generation_s = 0.1 if work.quick else 0.25
    calls = like_for_like.QUICK_CALLS_A_TURN if work.quick else like_for_like.CALLS_A_TURN
    dealt = hands(work.tasks, len(work.seeds), 1 if work.quick else _PEER_TASKS)
    figures, equal = like_for_like.measure_peers(dealt, generation_s, calls, work.seeds, work.progress)
    return _Measured(figures, (), like_for_like.METHOD, sum(equal), len(equal))


def _patterns(work: _Work) -> _Measured:
    if work.workloads is None:
        return _Measured({}, (), "")
    with tempfile.TemporaryDirectory() as folder:
        try:
            replayed = patterns.replay(work.workloads, Path(folder), quick=work.quick, progress=work.progress)
        except WorkloadNotFoundError as error:
            work.progress(str(error))
            return _Measured({}, (), "")
        figures, table = patterns.figures_and_table(replayed)
        work.progress("pattern drafts: latencies, numbers of drafts, and agents at once")
        latencies = controlled.QUICK.latencies if work.quick else controlled.FULL.latencies
        tables = pattern_agents.sweep_tables(replayed, latencies)
        figures |= pattern_agents.throughput_figures(replayed, Path(folder))
    return _Measured(figures, (table, *tables), f"{patterns.METHOD} {pattern_agents.METHOD}")


_PARTS: Final[Mapping[SpeculationPart, Callable[[_Work], _Measured]]] = {
    SpeculationPart.SIMULATED: _simulated,
    SpeculationPart.OVERHEAD: _overhead,
    SpeculationPart.PEERS: _peers,
    SpeculationPart.PATTERNS: _patterns,
}
