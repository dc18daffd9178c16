"""Speculation with simulated drafts of a controlled claim rate, against Eqs. 1 and 2 of SpecTools.

Model, tools and predictor take set times. Definitions of throughput and time saved, the five repetitions and
the numbers of agents and samples are those of SpecTools §4.3 and §5.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from agentrt.config import SpeculationConfig, TurnAhead
from agentrt.perfmodel import TurnTimes

from ..common.estimates import Estimate, median
from ..common.report import Cell, Table
from .agent_tasks import Task
from .timed_agents import Pair, Setup, Times, hands, is_right, run_fleet

GENERATION = 2.0  # seconds of a turn of the model, before scaling; the paper's model takes 2.0 to 2.5
DRAFT = 0.2
RATIOS = (0.5, 0.75, 1.0, 1.5, 2.0)
CHANCES = (0.35, 0.6, 0.8)  # of one sample: as of a 1B, a 3B and an 8B draft model
SAMPLES = (1, 3, 5, 7, 9)
LATENCIES = (0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0)
_MAIN_TOKENS = (1200, 400)  # of a turn of the main model, reasoning included
METHOD = """\
Simulated drafts: tasks as looping agents with one call a turn, on a model and tools that take set times \
(G 2 s, g 0.2 s, T 0 to 3 s, scaled; G and T normally distributed with a spread of 0 or 20 %), and a \
predictor that knows the tasks and each of whose samples is right with a set chance: they check the \
machinery against Eqs. 1 and 2 and say nothing about how good drafts are. Measurements are repeated with \
each seed, interleaved; values are medians over the seeds with their 90 % intervals. The figures run in \
scaled time, the tables of Figures 5 to 7 in virtual time. Time saved and tokens per second are means over \
the agents of those of each (SpecTools §5). model_attainment is the seconds saved by those that Eq. 2 \
would save at the measured G and T if all right drafts were claimed, over T/G of 0.5 to 2. \
throughput_mN_ratio is tokens per second with N agents at once, speculative by plain. Costs take 1200 \
tokens in and 400 out for a turn of the main model, and list prices of gpt-5 and gpt-5-nano of November \
2025."""
# Dollars per million tokens read and written: OpenAI's list prices of gpt-5 and gpt-5-nano, November 2025.
_MAIN_PRICE = (1.25, 10.0)
_DRAFT_PRICE = (0.05, 0.40)

Tokens = tuple[float, float]
"""Tokens that a model reads and writes."""

_CHANCE = 0.8
_NEVER_RIGHT_SCALE = 0.1
_ALL = SpeculationConfig(max_speculations=16)


@dataclass(frozen=True, slots=True)
class Size:
    """Amount of work: what the seconds of the paper are scaled by in scaled time, and tasks an agent."""

    scale: float
    each: int
    never_right_each: int
    fleets: Mapping[int, int]
    """Tasks an agent, by how many agents there are at once."""
    ratios: tuple[float, ...]
    latencies: tuple[float, ...]
    samples: tuple[int, ...]


FULL = Size(0.1, 1, 2, {1: 3, 8: 2, 32: 1}, RATIOS[::2], LATENCIES, SAMPLES)
QUICK = Size(0.04, 1, 1, {1: 1, 8: 1, 32: 1}, RATIOS[::2], LATENCIES[::3], SAMPLES[::4])


@dataclass(slots=True)
class Controlled:
    """Runs each setting plain and speculatively on the same tasks, and collects figures and tables."""

    tasks: Sequence[Task]
    size: Size
    seeds: Sequence[int]
    progress: Callable[[str], None]
    figures: dict[str, Estimate] = field(default_factory=dict)
    tables: list[Table] = field(default_factory=list)
    pairs: int = 0
    equal: int = 0

    async def measure(self) -> None:
        """Measure the figures; they hold what the SDK itself takes in scaled time."""
        await self._attainment()
        await self._never_right()
        await self._ahead()
        await self._agents_at_once()

    async def sweep(self) -> None:
        """Fill the tables of Figures 5 to 7; for virtual time, in which seeds repeat exactly."""
        await self._latencies()
        await self._samples()

    def _times(self, tool: float, spread: float = 0.0) -> Times:
        scale = self.size.scale
        return Times(scale * GENERATION, scale * DRAFT, scale * tool, spread)

    async def _pairs(self, times: Times, agents: int, each: int, setups: Sequence[Setup]) -> list[list[Pair]]:
        """Run the agents plain and under each setup, with each seed; return one list of pairs a setup."""
        dealt = hands(self.tasks, agents, each)
        measured: list[list[Pair]] = [[] for _ in setups]
        for seed in self.seeds:
            drawn = replace(times, seed=seed)
            plain = await run_fleet(dealt, drawn, None)
            for setup, pairs in zip(setups, measured, strict=True):
                fast = await run_fleet(dealt, drawn, setup)
                pairs.append(Pair(plain, fast))
                self.pairs += len(dealt)
                self.equal += sum(map(operator.eq, plain.transcripts, fast.transcripts))
        return measured

    async def _attainment(self) -> None:
        sums = [(0.0, 0.0)] * len(self.seeds)
        dealt = hands(self.tasks, 8, self.size.each)
        for ratio in self.size.ratios:
            self.progress(f"simulated drafts, tools of {ratio:g} times the model's time")
            times = self._times(ratio * GENERATION)
            (pairs,) = await self._pairs(times, 8, self.size.each, [Setup(chance=_CHANCE, config=_ALL)])
            savings = [
                _savings(pair, _right_drafts(dealt, replace(times, seed=seed)), times)
                for seed, pair in zip(self.seeds, pairs, strict=True)
            ]
            sums = [(a + c, b + d) for (a, b), (c, d) in zip(sums, savings, strict=True)]
        self.figures["model_attainment"] = median([saved / optimum for saved, optimum in sums])

    async def _never_right(self) -> None:
        self.progress("drafts that are never right")
        # A few agents on a slow clock: what counts is what speculation costs, not how agents queue for it.
        generation, draft = _NEVER_RIGHT_SCALE * GENERATION, _NEVER_RIGHT_SCALE * DRAFT
        times = Times(generation, draft, generation)
        (pairs,) = await self._pairs(times, 2, self.size.never_right_each, [Setup(chance=0.0, config=_ALL)])
        slowdowns = [100 * (1 / pair.speedup - 1) for pair in pairs]
        self.figures["alpha0_slowdown_pct"] = median(slowdowns)

    async def _ahead(self) -> None:
        self.progress("turn-ahead, tools as slow as the model")
        config = SpeculationConfig(turn_ahead=TurnAhead(depth=4))
        setup = Setup(config=config, looks_ahead=True)
        (pairs,) = await self._pairs(self._times(GENERATION), 8, self.size.each, [setup])
        self.figures["turn_ahead_speedup"] = median([pair.speedup for pair in pairs])

    async def _agents_at_once(self) -> None:
        for agents, each in self.size.fleets.items():
            self.progress(f"{agents} agents at once")
            setups, times = [Setup(chance=_CHANCE, config=_ALL)], self._times(1.5, spread=0.2)
            (pairs,) = await self._pairs(times, agents, each, setups)
            ratio = median([pair.throughput_ratio for pair in pairs])
            self.figures[f"throughput_m{agents}_ratio"] = ratio

    async def _latencies(self) -> None:
        rows: list[tuple[Cell, ...]] = []
        setups = [Setup(chance=chance, config=_ALL) for chance in CHANCES]
        for latency in self.size.latencies:
            self.progress(f"simulated drafts, tools of {latency:g} s")
            measured = await self._pairs(Times(GENERATION, DRAFT, latency, 0.2), 16, 1, setups)
            for chance, pairs in zip(CHANCES, measured, strict=True):
                rows.append((_drafts(chance), latency, median([pair.saved_pct for pair in pairs])))
        self._table(
            "time saved by tool latency, one sample a turn (Figure 6)", ("drafts", "tool s", "saved %"), rows
        )

    async def _samples(self) -> None:
        rows: list[tuple[Cell, ...]] = []
        for chance in CHANCES:
            self.progress(f"simulated drafts, right {chance:.0%} a sample, by samples a turn")
            setups = [Setup(chance=chance, samples=samples, config=_ALL) for samples in self.size.samples]
            measured = await self._pairs(Times(GENERATION, DRAFT, 1.5, 0.2), 16, 1, setups)
            for samples, pairs in zip(self.size.samples, measured, strict=True):
                rows.append((_drafts(chance), samples, *_sample_cells(pairs)))
        self._table("samples a turn, tools of 1.5 s (Figures 5 and 7)", SAMPLE_COLUMNS, rows)

    def _table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
        self.tables.append(Table(title=title, columns=tuple(columns), rows=tuple(map(tuple, rows))))


SAMPLE_COLUMNS = (
    *("drafts", "samples", "claim rate", "more tokens/s", "saved %"),
    *("dollars per 100 turns", "added cost %"),
)


def cost_cells(draft: Tokens, main: Tokens) -> tuple[float, float]:
    """Return the last two cells of :data:`SAMPLE_COLUMNS`; ``draft`` and ``main`` are of one turn."""
    dollars = _dollars(draft, _DRAFT_PRICE)
    return round(100 * dollars, 5), round(100 * dollars / _dollars(main, _MAIN_PRICE), 3)


def _dollars(tokens: Tokens, price: tuple[float, float]) -> float:
    return sum(count * each for count, each in zip(tokens, price, strict=True)) / 1e6


def _sample_cells(pairs: Sequence[Pair]) -> tuple[Cell, ...]:
    turns = sum(sum(pair.fast.turns) for pair in pairs)
    read, written = map(sum, zip(*(pair.fast.draft_tokens for pair in pairs), strict=True))
    return (
        median([pair.fast.claim_rate for pair in pairs]),
        median([pair.more_tokens_per_second for pair in pairs]),
        median([pair.saved_pct for pair in pairs]),
        *cost_cells((read / turns, written / turns), _MAIN_TOKENS),
    )


def _drafts(chance: float) -> str:
    return f"simulated, right {chance:.0%} a sample"


def _right_drafts(dealt: Sequence[Sequence[Task]], times: Times) -> int:
    """Return the number of calls whose first sample is right."""
    return sum(
        is_right(times, task.request, made, 0, _CHANCE)
        for hand in dealt
        for task in hand
        for made in range(len(task.calls))
    )


def _savings(pair: Pair, right_drafts: int, times: Times) -> tuple[float, float]:
    """Return the seconds that speculation saved, and those that Eq. 2 saves with all right drafts claimed."""
    measured = TurnTimes(pair.plain.generation_s, times.draft, pair.plain.tool_s)
    saved = sum(pair.plain.seconds) - sum(pair.fast.seconds)
    return saved, right_drafts * (measured.standard() - measured.speculative(1.0))
