"""Figures 5 to 8 of SpecTools with a main model and draft models given as files."""

from __future__ import annotations

import asyncio
import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentrt.config import SpeculationConfig
from agentrt.reports.report import SpeculationReport

from ..common.bench_model import open_given_models, title_of
from ..common.machine import describe_machine
from ..common.report import BenchReport, Cell, Seeds, Table, spread_cells, spread_columns
from .agent_runs import AgentRun, agent_on, ask
from .controlled import SAMPLE_COLUMNS, sample_cells
from .model_tasks import ModelTask, ToolLatency, model_tasks
from .replayed_chat import Recording

if TYPE_CHECKING:
    from agentrt.speculators import LocalSpeculator

METHOD = """\
Real models: a LangGraph agent (langchain create_agent) on {model} in the local runtime, greedy, answers \
requests; the drafts are of {drafts}, on one thread, right or wrong as they come. Tools take a set time, a \
multiple of the median time G of the main model's turns. 'on the same machine': main model and draft \
compute at one time and slow each other down. 'replayed': the main model's time is waited and not \
computed, as if it were remote: its own recorded answers, each after the time that it took alone. Each \
request runs plain and under each setting in rotation; a value is the mean over the requests (SpecTools \
§5). Figures 5 to 7 vary samples and tool latency with the replayed main model. claim_rate, SpecTools' \
alpha, is the share of calls of speculable tools that were claimed, over Figure 6. transcripts_equal \
compares messages but for ids; where the engine answers calls itself, the last one. Costs are at list \
prices of gpt-5 and gpt-5-nano of November 2025."""
_CONFIG = SpeculationConfig(max_speculations=16)
_MAX_TOKENS = 256
_SEEDS = 1  # greedy models say the same in each repetition: more requests say more
_SAMPLES_LATENCY = 0.75  # as 1.5 s for a model that takes 2 s
_SAME_MACHINE, _REPLAYED = "on the same machine", "replayed"


@dataclass(frozen=True, slots=True)
class Size:
    """Amount of work: requests, tool latencies in multiples of G, and numbers of samples."""

    requests: int
    latencies: tuple[float, ...]
    """With the replayed main model."""
    local_latencies: tuple[float, ...]
    """With the main model on the same machine."""
    figure_8_latencies: tuple[float, ...]
    samples: tuple[int, ...]


FULL = Size(10, (0.25, 0.5, 1.0, 1.5), (0.5, 1.0), (1.0,), (1, 3, 5))
QUICK = Size(2, (0.5, 1.0), (1.0,), (1.0,), (1, 3))


@dataclass(frozen=True, slots=True)
class _Setting:
    """How an agent speculates: by which drafts, with how many samples, and where speculation ends."""

    drafts: LocalSpeculator
    samples: int = 1
    engine_side: bool = False


@dataclass(slots=True)
class _Round:
    """All requests once with one seed, plain and under one setting."""

    runs: list[tuple[AgentRun, AgentRun]]
    report: SpeculationReport
    engine_side: bool

    @property
    def saved_pct(self) -> float:
        return statistics.fmean(100 * (1 - fast.seconds / plain.seconds) for plain, fast in self.runs)

    @property
    def more_tokens_per_second(self) -> float:
        return statistics.fmean(fast.tokens_per_second - plain.tokens_per_second for plain, fast in self.runs)

    @property
    def equal(self) -> int:
        if self.engine_side:
            return sum(plain.answer == fast.answer for plain, fast in self.runs)
        return sum(plain.transcript == fast.transcript for plain, fast in self.runs)


@dataclass(slots=True)
class ModelsBench:
    """Runs the agents on one main model and collects figures and tables."""

    main: Any
    engine_side_main: Any
    drafts: Sequence[LocalSpeculator]
    tasks: Sequence[ModelTask]
    size: Size
    seeds: Sequence[int]
    progress: Callable[[str], None]
    figures: dict[str, float] = field(default_factory=dict)
    tables: list[Table] = field(default_factory=list)
    _latency: ToolLatency = field(default_factory=ToolLatency)
    _rounds: list[_Round] = field(default_factory=list)
    _replayed: Any = None
    _generation_s: float = 0.0

    async def measure(self) -> None:
        self.progress("the main model by itself")
        recording = Recording()
        self._replayed = recording.replay()
        warm = [
            await ask(agent_on(self.main, task.tools(self._latency)), task.request, recording)
            for task in self.tasks
        ]
        generations = [seconds for run in warm for seconds in run.generations]
        self.figures["requests_with_calls"] = float(sum(run.tool_calls > 0 for run in warm))
        self._generation_s = statistics.median(generations or [run.seconds for run in warm])
        self.figures["generation_s"] = self._generation_s
        await self._by_latency()
        await self._by_samples()
        await self._by_side()
        runs = sum(len(each.runs) for each in self._rounds)
        self.figures["transcripts_equal"] = sum(each.equal for each in self._rounds) / runs

    async def _by_latency(self) -> None:
        rows: list[tuple[Cell, ...]] = []
        for place, main, latencies in (
            (_REPLAYED, self._replayed, self.size.latencies),
            (_SAME_MACHINE, self.main, self.size.local_latencies),
        ):
            measured: list[_Round] = []
            for ratio in latencies:
                settings = [_Setting(drafts) for drafts in self.drafts]
                found = await self._measured(ratio, settings, main)
                for setting, rounds in zip(settings, found, strict=True):
                    measured += rounds
                    name = f"{setting.drafts.name}, main model {place}"
                    saved = spread_cells([one.saved_pct for one in rounds], 2)
                    shares = _share(rounds, "claims"), _share(rounds, "correct")
                    rows.append((name, ratio, self._seconds(ratio), *saved, *shares))
            self._figures_of(place, measured)
        columns = ("drafts", "T/G", "tool s", *spread_columns("saved %"), "claim rate", "right drafts")
        self._table("time saved by tool latency, one sample a turn, real drafts (Figure 6)", columns, rows)

    def _figures_of(self, place: str, rounds: Sequence[_Round]) -> None:
        name = "_replayed_main" if place == _REPLAYED else ""
        claimed = _share(rounds, "claims")
        if claimed is None:  # without any there was nothing to speculate on, and differences are noise
            self.progress("the main model has called no speculable tool: nothing could be saved")
            return
        self.figures[f"time_saved_pct{name}"] = statistics.fmean(one.saved_pct for one in rounds)
        self.figures[f"claim_rate{name}"] = claimed

    async def _by_samples(self) -> None:
        rows: list[tuple[Cell, ...]] = []
        settings = [_Setting(drafts, samples) for drafts in self.drafts for samples in self.size.samples]
        measured = await self._measured(_SAMPLES_LATENCY, settings, self._replayed)
        for setting, rounds in zip(settings, measured, strict=True):
            label = f"{setting.drafts.name}, main model {_REPLAYED}"
            rows.append((label, setting.samples, *_sample_cells(rounds)))
        seconds = self._seconds(_SAMPLES_LATENCY)
        self._table(
            f"samples a turn, tools of {seconds:g} s, real drafts (Figures 5 and 7)", SAMPLE_COLUMNS, rows
        )

    async def _by_side(self) -> None:
        rows: list[tuple[Cell, ...]] = []
        for ratio in self.size.figure_8_latencies:
            settings = [_Setting(self.drafts[0], engine_side=engine_side) for engine_side in (False, True)]
            for setting, rounds in zip(
                settings, await self._measured(ratio, settings, self.main), strict=True
            ):
                saved = spread_cells([one.saved_pct for one in rounds], 2)
                side = "engine-side" if setting.engine_side else "client-side"
                rows.append((self._seconds(ratio), side, setting.drafts.name, *saved))
        columns = ("tool s", "side", "drafts", *spread_columns("saved %"))
        self._table("time saved by where speculation ends, real drafts (Figure 8)", columns, rows)

    async def _measured(self, ratio: float, settings: Sequence[_Setting], main: Any) -> list[list[_Round]]:
        """Run every request plain and under every setting, with each seed; return the rounds by setting."""
        from agentrt.adapters.langchain import report_of, speculate

        self._latency.seconds = ratio * self._generation_s
        measured: list[list[_Round]] = [[] for _ in settings]
        for seed in self.seeds:
            models = [
                speculate(
                    self.engine_side_main if setting.engine_side else main,
                    setting.drafts,
                    samples=setting.samples,
                    config=_CONFIG,
                )
                for setting in settings
            ]
            runs: list[list[tuple[AgentRun, AgentRun]]] = [[] for _ in settings]
            for place, task in enumerate(self._in_order(seed)):
                self.progress(f"tools of {self._latency.seconds:.2f} s, seed {seed}: {task.request}")
                tools = task.tools(self._latency)
                agents = [agent_on(model, tools) for model in (main, *models)]
                base, *fast = await _in_rotation(agents, task.request, place + seed)
                for own, run in zip(runs, fast, strict=True):
                    own.append((base, run))
            for setting, model, own, rounds in zip(settings, models, runs, measured, strict=True):
                rounds.append(_Round(own, report_of(model), setting.engine_side))
        self._rounds += [one for rounds in measured for one in rounds]
        return measured

    def _in_order(self, seed: int) -> list[ModelTask]:
        return random.Random(seed).sample(list(self.tasks), len(self.tasks))

    def _seconds(self, ratio: float) -> float:
        return round(ratio * self._generation_s, 3)

    def _table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
        self.tables.append(Table(title=title, columns=tuple(columns), rows=tuple(map(tuple, rows))))


async def _in_rotation(agents: Sequence[Any], request: str, start: int) -> list[AgentRun]:
    """Run a request on every agent, one after the other from number ``start`` on; return the runs by agent.

    A later run may find more of its prompt in the prefix cache, so each agent is first at times.
    """
    runs: dict[int, AgentRun] = {}
    for step in range(len(agents)):
        place = (start + step) % len(agents)
        runs[place] = await ask(agents[place], request)
    return [runs[place] for place in range(len(agents))]


def run_models(
    model: str,
    drafts: Sequence[str],
    *,
    quick: bool,
    seeds: Seeds,
    workloads: Path | None,
    progress: Callable[[str], None],
) -> BenchReport:
    """Measure a main model with draft models: GGUF files, directories or embedded names, at least one draft.

    Raises:
        WorkloadNotFoundError, WorkloadFormatError: the tasks cannot be read.
        ModelNotFoundError, ModelFormatError: a model cannot be opened.
    """
    from agentrt.adapters.langchain import ChatAgentRT
    from agentrt.runtime import LocalRuntime, RuntimeConfig
    from agentrt.speculators import LocalSpeculator

    size, machine, taken = QUICK if quick else FULL, describe_machine(), seeds.take(_SEEDS)
    threads = max(1, machine.usable_cores - 1)  # one core for the drafts
    tasks = model_tasks(workloads, size.requests)
    given = open_given_models({model, *drafts}, progress)
    predictors = [LocalSpeculator(given[draft].path, threads=1) for draft in drafts]
    with LocalRuntime.open(given[model].path, RuntimeConfig(threads=threads)) as runtime:
        options: dict[str, Any] = {"runtime": runtime, "max_tokens": _MAX_TOKENS, "temperature": 0}
        main, engine_side_main = ChatAgentRT(**options), ChatAgentRT(**options, tool_cache=True)
        bench = ModelsBench(main, engine_side_main, predictors, tasks, size, taken, progress)
        asyncio.run(bench.measure())
    return BenchReport(
        bench="speculation_models",
        machine=machine,
        figures=bench.figures,
        tables=tuple(bench.tables),
        method=METHOD.format(model=title_of(model), drafts=", ".join(map(title_of, drafts))),
    )


def _share(rounds: Sequence[_Round], what: str) -> float | None:
    """Return claimed by all calls of speculable tools, or correct by all drafts; None without any."""
    if what == "claims":
        totals = [one.report.total for one in rounds]
        part, whole = sum(one.claims for one in totals), sum(one.claims + one.misses for one in totals)
    else:
        used = [each for one in rounds for each in one.report.predictors.values()]
        part, whole = sum(each.correct for each in used), sum(each.drafts for each in used)
    return round(part / whole, 3) if whole else None


def _sample_cells(rounds: Sequence[_Round]) -> tuple[Cell, ...]:
    turns = sum(len(fast.generations) + 1 for one in rounds for _, fast in one.runs)
    used = [each for one in rounds for each in one.report.predictors.values()]
    plain = [run for one in rounds for run, _ in one.runs]
    return sample_cells(
        [one.report.total.claim_rate for one in rounds],
        [one.more_tokens_per_second for one in rounds],
        [one.saved_pct for one in rounds],
        (sum(each.input_tokens for each in used) / turns, sum(each.output_tokens for each in used) / turns),
        (sum(run.tokens[0] for run in plain) / turns, sum(run.tokens[1] for run in plain) / turns),
    )
