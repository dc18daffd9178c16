"""Figures 5 to 8 of SpecTools with a main model and draft models given as files."""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentrt.config import SpeculationConfig

from ..common.bench_model import open_given_models, title_of
from ..common.estimates import Estimate, exact, median, share
from ..common.machine import describe_machine
from ..common.report import BenchReport, Cell, Seeds, Table
from .agent_runs import AgentRun, agent_on, ask
from .compared_runs import Asked, Counts, claim_rate, counts_of, right_drafts, sample_cells, saved
from .controlled import SAMPLE_COLUMNS
from .model_tasks import ModelTask, ToolLatency, model_tasks
from .replayed_chat import Recording

if TYPE_CHECKING:
    from agentrt.speculators import LocalSpeculator

METHOD = """\
Real models: a LangGraph agent (langchain create_agent) on {model} in the local runtime, greedy, answers \
requests: half of them BFCL's single-turn tasks, half with ten tools as the embedded models were trained \
on (all of these without a folder of workloads); the drafts are of {drafts}, on one thread, right or wrong \
as they come. Each seed has requests of its own. Tools take a set time, a multiple of the median time G of \
the main model's turns. 'on the same machine': main model and draft compute at one time and slow each \
other down; each request runs plain and under each setting in rotation. 'replayed': the main model's time \
is waited and not computed, as if it were remote: its own recorded answers, each after the time that it \
took alone; three agents share the requests and one draft model. A value is the mean over the requests of \
all seeds (SpecTools §5), its 90 % interval is over the requests. Figures 5 and 7 vary the samples a turn \
with the replayed main model. claim_rate, SpecTools' alpha, is the share of calls of speculable tools that \
were claimed; it and time_saved_pct are with the first draft model, one sample a turn and tools that take \
G. transcripts_equal compares messages but for ids; where the engine answers calls itself, the last one. \
Costs are at list prices of gpt-5 and gpt-5-nano of November 2025."""
_CONFIG = SpeculationConfig(max_speculations=16)
_MAX_TOKENS = 96
_SEEDS, _QUICK_SEEDS = 3, 1
_SAME_MACHINE, _REPLAYED = "on the same machine", "replayed"
_T = 1.0
"""The tool's time in multiples of G where something else varies: where speculation can save most."""
_AGENTS = 3
"""That share the requests where nothing but drafts is computed."""


@dataclass(frozen=True, slots=True)
class Size:
    """Amount of work: requests of each seed, tool latencies in multiples of G, and numbers of samples."""

    requests: int
    latencies: tuple[float, ...]
    """With the replayed main model."""
    samples: tuple[int, ...]


FULL = Size(10, (0.5, _T), (1, 3, 5))
QUICK = Size(2, (_T,), (1, 3))


@dataclass(frozen=True, slots=True)
class _Setting:
    """How an agent speculates: by which drafts, with how many samples, and where speculation ends."""

    drafts: str
    """The draft model, by its title."""
    samples: int = 1
    engine_side: bool = False


@dataclass(slots=True)
class ModelsBench:
    """Runs the agents on one main model and collects figures and tables."""

    main: Any
    engine_side_main: Any
    drafts: Mapping[str, LocalSpeculator]
    """By the titles of their models."""
    tasks: Sequence[ModelTask]
    size: Size
    progress: Callable[[str], None]
    figures: dict[str, Estimate] = field(default_factory=dict)
    tables: list[Table] = field(default_factory=list)
    _latency: ToolLatency = field(default_factory=ToolLatency)
    _asked: list[Asked] = field(default_factory=list)
    _generation_s: float = 0.0

    async def measure(self) -> None:
        self.progress("the main model by itself")
        recording = Recording()
        warm = [
            await ask(agent_on(self.main, task.tools(self._latency)), task.request, recording)
            for task in self.tasks
        ]
        generations = [seconds for run in warm for seconds in run.generations]
        self.figures["requests_with_calls"] = exact(sum(run.tool_calls > 0 for run in warm))
        generation = median(generations or [run.seconds for run in warm])
        self._generation_s, self.figures["generation_s"] = generation.value, generation
        replayed = await self._on_replayed(recording.replay())
        client_side, engine_side = await self._on_same_machine()
        by_latency = [
            (f"{setting.drafts}, main model {_REPLAYED}", ratio, found)
            for (ratio, setting), found in replayed.items()
            if setting.samples == 1
        ]
        by_latency += [
            (f"{setting.drafts}, main model {_SAME_MACHINE}", _T, found)
            for setting, found in client_side.items()
        ]
        first = _Setting(next(iter(self.drafts)))
        self._figures_of("_replayed_main", replayed[_T, first])
        self._figures_of("", client_side[first])
        self._table(
            "time saved by tool latency, one sample a turn, real drafts (Figure 6)",
            ("drafts", "T/G", "tool s", "saved %", "claim rate", "right drafts"),
            [
                (name, ratio, self._seconds(ratio), saved(found), claim_rate(found), right_drafts(found))
                for name, ratio, found in by_latency
            ],
        )
        self._table(
            f"samples a turn, tools of {self._seconds(_T):g} s, real drafts (Figures 5 and 7)",
            SAMPLE_COLUMNS,
            [
                (f"{setting.drafts}, main model {_REPLAYED}", setting.samples, *sample_cells(found))
                for (ratio, setting), found in replayed.items()
                if ratio == _T
            ],
        )
        self._table(
            "time saved by where speculation ends, real drafts (Figure 8)",
            ("tool s", "side", "drafts", "saved %"),
            [
                (self._seconds(_T), side, setting.drafts, saved(found))
                for side, measured in (("client-side", client_side), ("engine-side", engine_side))
                for setting, found in measured.items()
            ],
        )
        by_source: dict[str, list[Asked]] = {}
        for one in replayed[_T, first]:
            by_source.setdefault(one.source, []).append(one)
        self._table(
            f"claims by requests, main model {_REPLAYED}, one sample a turn",
            ("requests", "runs", "claim rate", "saved %"),
            [(source, len(found), claim_rate(found), saved(found)) for source, found in by_source.items()],
        )
        equal = sum(one.is_equal for one in self._asked)
        self.figures["transcripts_equal"] = share(equal, len(self._asked))

    def _figures_of(self, suffix: str, asked: Sequence[Asked]) -> None:
        claimed = claim_rate(asked)
        if claimed is None:  # without any there was nothing to speculate on, and differences are noise
            self.progress("the main model has called no speculable tool: nothing could be saved")
            return
        self.figures[f"time_saved_pct{suffix}"] = saved(asked)
        self.figures[f"claim_rate{suffix}"] = claimed

    async def _on_replayed(self, main: Any) -> dict[tuple[float, _Setting], list[Asked]]:
        """Return what each setting saves a replayed main model, by the tools' time."""
        measured: dict[tuple[float, _Setting], list[Asked]] = {}
        for ratio in self.size.latencies:
            self._latency.seconds = ratio * self._generation_s
            # Nothing is computed in these: they may run at one time.
            plain = await asyncio.gather(
                *(ask(agent_on(main, task.tools(self._latency)), task.request) for task in self.tasks)
            )
            for samples in self.size.samples if ratio == _T else self.size.samples[:1]:
                for drafts in self.drafts:
                    setting = _Setting(drafts, samples)
                    self.progress(f"main model {_REPLAYED}, tools of {ratio:g} G, {samples} sample(s)")
                    of_agents = await asyncio.gather(
                        *(self._work(agent, main, setting, plain) for agent in range(_AGENTS))
                    )
                    measured[ratio, setting] = [one for found in of_agents for one in found]
        return measured

    async def _work(self, agent: int, main: Any, setting: _Setting, plain: Sequence[AgentRun]) -> list[Asked]:
        """Do one agent's share of the requests."""
        model, found = self._speculating(main, setting), list[Asked]()
        for task, base in list(zip(self.tasks, plain, strict=True))[agent::_AGENTS]:
            before = counts_of(model)
            run = await ask(agent_on(model, task.tools(self._latency)), task.request)
            found.append(self._note(task, base, run, setting, before, counts_of(model)))
        return found

    async def _on_same_machine(self) -> tuple[dict[_Setting, list[Asked]], dict[_Setting, list[Asked]]]:
        """Return what is saved on the client's side by each draft model, and on the engine's by the first."""
        self._latency.seconds = _T * self._generation_s
        settings = [*map(_Setting, self.drafts), _Setting(next(iter(self.drafts)), engine_side=True)]
        models = [
            self._speculating(self.engine_side_main if each.engine_side else self.main, each)
            for each in settings
        ]
        found: dict[_Setting, list[Asked]] = {setting: [] for setting in settings}
        for number, task in enumerate(self.tasks):
            self.progress(f"main model {_SAME_MACHINE}: {task.request[:60]}")
            tools = task.tools(self._latency)
            agents = [agent_on(model, tools) for model in (self.main, *models)]
            before = [counts_of(model) for model in models]
            plain, *fast = await _in_rotation(agents, task.request, number)
            for setting, model, run, counted in zip(settings, models, fast, before, strict=True):
                found[setting].append(self._note(task, plain, run, setting, counted, counts_of(model)))
        client_side = {setting: each for setting, each in found.items() if not setting.engine_side}
        return client_side, {setting: each for setting, each in found.items() if setting.engine_side}

    def _speculating(self, main: Any, setting: _Setting) -> Any:
        from agentrt.adapters.langchain import speculate

        return speculate(main, self.drafts[setting.drafts], samples=setting.samples, config=_CONFIG)

    def _note(
        self, task: ModelTask, plain: AgentRun, fast: AgentRun, setting: _Setting, *counted: Counts
    ) -> Asked:
        before, after = counted
        asked = Asked(
            task.source, plain, fast, setting.engine_side, Counts(*map(operator.sub, after, before))
        )
        self._asked.append(asked)
        return asked

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

    size, machine = QUICK if quick else FULL, describe_machine()
    taken = seeds.take(_QUICK_SEEDS if quick else _SEEDS)
    threads = max(1, machine.usable_cores - 1)  # one core for the drafts
    tasks = model_tasks(workloads, size.requests * len(taken), seed=taken[0])
    given = open_given_models({model, *drafts}, progress)
    predictors = {title_of(draft): LocalSpeculator(given[draft].path, threads=1) for draft in drafts}
    with LocalRuntime.open(given[model].path, RuntimeConfig(threads=threads)) as runtime:
        options: dict[str, Any] = {"runtime": runtime, "max_tokens": _MAX_TOKENS, "temperature": 0}
        main, engine_side_main = ChatAgentRT(**options), ChatAgentRT(**options, tool_cache=True)
        bench = ModelsBench(main, engine_side_main, predictors, tasks, size, progress)
        asyncio.run(bench.measure())
    return BenchReport(
        bench="speculation_models",
        machine=machine,
        figures=bench.figures,
        tables=tuple(bench.tables),
        method=METHOD.format(model=title_of(model), drafts=", ".join(map(title_of, drafts))),
    )
