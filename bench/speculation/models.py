"""Figures 5 to 8 of SpecTools with a main model and draft models given as files."""

from __future__ import annotations

import asyncio
import random
import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agentrt.config import SpeculationConfig
from agentrt.reports.report import SpeculationReport

from ..common.bench_model import open_given_models
from ..common.repetitions import spread_cells, spread_columns
from ..common.report import Cell, Table
from .agent_runs import AgentRun, agent_on, ask
from .controlled import SAMPLE_COLUMNS
from .prices import added_cost_pct, dollars_per_100_turns
from .tasks import REQUESTS, TimedTools

if TYPE_CHECKING:
    from agentrt.speculators import LocalSpeculator

METHOD = (
    "Real models: a LangGraph agent (langchain create_agent) on {model} in the local runtime, greedy, with "
    "{threads} thread(s), answers {requests} requests with ten tools over fixed data, eight of them "
    "speculable; the drafts are of {drafts}, on one thread. Tools take a set time, a multiple of the median "
    "time G of the main model's turns, which is measured first. Each request runs plain and under each "
    "setting in rotation, {seeds} time(s) in an order drawn by a seed; a value is the mean over the requests "
    "(SpecTools §5), tables have median, minimum and maximum over the seeds. Engine-side results are "
    "submitted to the runtime's tool cache. claim_rate is the share of calls of speculable tools that were "
    "claimed, over Figure 6. transcripts_equal compares messages but for ids; where the engine answers calls "
    "itself, the last one. Costs take the tokens that were read and written and the prices of {prices}."
)
_CONFIG = SpeculationConfig(max_speculations=16)
_MAX_TOKENS = 256
LATENCIES = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5)  # of the time of the main model's turn
FIGURE_8_LATENCIES = (0.25, 1.0)
_SAMPLES_LATENCY = 0.75  # as 1.5 s for a model that takes 2 s
SAMPLES = (1, 3, 5, 7, 9)


@dataclass(frozen=True, slots=True)
class Size:
    """Amount of work: requests, tool latencies in multiples of G, and numbers of samples."""

    requests: int
    latencies: tuple[float, ...]
    figure_8_latencies: tuple[float, ...]
    samples: tuple[int, ...]


FULL = Size(8, LATENCIES, FIGURE_8_LATENCIES, SAMPLES)
QUICK = Size(2, (0.0, 1.0), (1.0,), (1, 3))


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
    size: Size
    seeds: Sequence[int]
    progress: Callable[[str], None]
    figures: dict[str, float] = field(default_factory=dict)
    tables: list[Table] = field(default_factory=list)
    _timed: TimedTools = field(default_factory=TimedTools)
    _rounds: list[_Round] = field(default_factory=list)
    _generation_s: float = 0.0

    async def measure(self) -> None:
        """Measure all figures on this event loop."""
        self.progress("the main model by itself")
        requests = REQUESTS[: self.size.requests]
        warm = [await ask(agent_on(self.main, self._timed.tools()), request) for request in requests]
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
        claims = calls = 0
        saved: list[float] = []
        for ratio in self.size.latencies:
            settings = [_Setting(drafts) for drafts in self.drafts]
            for setting, rounds in zip(settings, await self._measured(ratio, settings), strict=True):
                each = [one.saved_pct for one in rounds]
                saved.append(statistics.median(each))
                totals = [one.report.total for one in rounds]
                claims += sum(total.claims for total in totals)
                calls += sum(total.claims + total.misses for total in totals)
                rows.append((setting.drafts.name, self._seconds(ratio), *spread_cells(each, 2)))
        if calls:  # without any there was nothing to speculate on, and differences are noise
            self.figures["time_saved_pct"] = statistics.fmean(saved)
            self.figures["claim_rate"] = claims / calls
        else:
            self.progress("the main model has called no speculable tool: nothing could be saved")
        columns = ("drafts", "tool s", *spread_columns("saved %"))
        self._table("time saved by tool latency, one sample a turn (Figure 6)", columns, rows)

    async def _by_samples(self) -> None:
        rows: list[tuple[Cell, ...]] = []
        settings = [_Setting(drafts, samples) for drafts in self.drafts for samples in self.size.samples]
        for setting, rounds in zip(settings, await self._measured(_SAMPLES_LATENCY, settings), strict=True):
            rows.append((setting.drafts.name, setting.samples, *_sample_cells(rounds)))
        seconds = self._seconds(_SAMPLES_LATENCY)
        self._table(f"samples a turn, tools of {seconds:g} s (Figures 5 and 7)", SAMPLE_COLUMNS, rows)

    async def _by_side(self) -> None:
        rows: list[tuple[Cell, ...]] = []
        for ratio in self.size.figure_8_latencies:
            settings = [_Setting(self.drafts[0], engine_side=engine_side) for engine_side in (False, True)]
            for setting, rounds in zip(settings, await self._measured(ratio, settings), strict=True):
                saved = spread_cells([one.saved_pct for one in rounds], 2)
                side = "engine-side" if setting.engine_side else "client-side"
                rows.append((self._seconds(ratio), side, setting.drafts.name, *saved))
        columns = ("tool s", "side", "drafts", *spread_columns("saved %"))
        self._table("time saved by where speculation ends (Figure 8)", columns, rows)

    async def _measured(self, ratio: float, settings: Sequence[_Setting]) -> list[list[_Round]]:
        """Run every request plain and under every setting, with each seed; return the rounds by setting."""
        from agentrt.adapters.langchain import report_of, speculate

        self._timed.latency_s = ratio * self._generation_s
        tools = self._timed.tools()
        plain = agent_on(self.main, tools)
        measured: list[list[_Round]] = [[] for _ in settings]
        for seed in self.seeds:
            models = [
                speculate(
                    self.engine_side_main if setting.engine_side else self.main,
                    setting.drafts,
                    samples=setting.samples,
                    config=_CONFIG,
                )
                for setting in settings
            ]
            agents = [agent_on(model, tools) for model in models]
            runs: list[list[tuple[AgentRun, AgentRun]]] = [[] for _ in settings]
            for place, request in enumerate(self._in_order(seed)):
                self.progress(f"tools of {self._timed.latency_s:.2f} s, seed {seed}: {request}")
                base, *fast = await _in_rotation([plain, *agents], request, place + seed)
                for own, run in zip(runs, fast, strict=True):
                    own.append((base, run))
            for setting, model, own, rounds in zip(settings, models, runs, measured, strict=True):
                rounds.append(_Round(own, report_of(model), setting.engine_side))
        self._rounds += [one for rounds in measured for one in rounds]
        return measured

    def _in_order(self, seed: int) -> list[str]:
        return random.Random(seed).sample(REQUESTS[: self.size.requests], self.size.requests)

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


def measure_models(
    model: str,
    drafts: Sequence[str],
    *,
    quick: bool,
    seeds: Sequence[int],
    threads: int,
    progress: Callable[[str], None],
) -> ModelsBench:
    """Open the models and measure. They are GGUF files, directories or embedded names, at least one draft.

    Raises:
        ModelNotFoundError, ModelFormatError: a model cannot be opened.
    """
    with _opened(model, drafts, threads, progress) as (main, engine_side_main, predictors):
        bench = ModelsBench(main, engine_side_main, predictors, QUICK if quick else FULL, seeds, progress)
        asyncio.run(bench.measure())
    return bench


@contextmanager
def _opened(
    model: str, drafts: Sequence[str], threads: int, progress: Callable[[str], None]
) -> Iterator[tuple[Any, Any, list[LocalSpeculator]]]:
    from agentrt.adapters.langchain import ChatAgentRT
    from agentrt.runtime import LocalRuntime, RuntimeConfig
    from agentrt.speculators import LocalSpeculator

    given = open_given_models({model, *drafts}, progress)
    predictors = [LocalSpeculator(given[draft].path, threads=1) for draft in drafts]
    with LocalRuntime.open(given[model].path, RuntimeConfig(threads=threads)) as runtime:
        options: dict[str, Any] = {"runtime": runtime, "max_tokens": _MAX_TOKENS, "temperature": 0}
        yield ChatAgentRT(**options), ChatAgentRT(**options, tool_cache=True), predictors


def _sample_cells(rounds: Sequence[_Round]) -> tuple[Cell, ...]:
    turns = sum(len(fast.generations) + 1 for one in rounds for _, fast in one.runs)
    used = [each for one in rounds for each in one.report.predictors.values()]
    draft = sum(each.input_tokens for each in used) / turns, sum(each.output_tokens for each in used) / turns
    plain = [run for one in rounds for run, _ in one.runs]
    main = sum(run.tokens[0] for run in plain) / turns, sum(run.tokens[1] for run in plain) / turns
    return (
        *spread_cells([one.report.total.claim_rate for one in rounds], 3),
        *spread_cells([one.more_tokens_per_second for one in rounds], 2),
        *spread_cells([one.saved_pct for one in rounds], 2),
        round(dollars_per_100_turns(draft), 5),
        round(added_cost_pct(draft, main), 3),
    )
