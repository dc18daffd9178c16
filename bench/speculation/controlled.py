"""Speculation with predictors of a controlled claim rate, against Eqs. 1 and 2 of SpecTools."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from agentrt.config import SpeculationConfig, TurnAhead
from agentrt.perfmodel import TurnTimes

from ..common.report import Cell, Table
from .agent_tasks import Task
from .timed_agents import Fleet, Setup, Times, run_fleet

GENERATION = 2.0  # seconds of a turn of the model, before scaling; the paper's model takes 2.0 to 2.5
DRAFT = 0.2
RATIOS = (0.5, 0.75, 1.0, 1.5, 2.0)
CHANCES = (0.35, 0.6, 0.8)  # of one sample: as of a 1B, a 3B and an 8B draft model
SAMPLES = (1, 3, 5, 7, 9)
LATENCIES = (0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0)
AGENTS = (1, 8, 32)
# Dollars per million tokens read and written: OpenAI's list prices of gpt-5 and gpt-5-nano of November 2025.
MAIN_PRICE = (1.25, 10.0)
DRAFT_PRICE = (0.05, 0.40)
_MAIN_TOKENS = (1200, 400)  # of a turn of the main model, reasoning included
METHOD = (
    "Controlled: {source} as looping agents with one call a turn, on a model and tools that take set "
    "times (G 2 s, g 0.2 s, T 0 to 3 s, all times {scale:g}; spread 0 or 20 %), and a predictor each of "
    "whose samples is right with a set chance. model_attainment is the seconds saved by the seconds Eq. "
    "2 would save at the G, g, T and claim rate measured, summed over T/G of 0.5 to 2. "
    "alpha0_slowdown_pct has drafts that are never right. turn_ahead_speedup is plain by speculative "
    "time at T = G with right drafts of a predictor that needs no results and model requests sent up to "
    "4 turns ahead. throughput_mN_ratio is tokens per second of N agents at once, speculative by plain. "
    "Costs take OpenAI's list prices of gpt-5 and gpt-5-nano of November 2025, 1200 tokens in and 400 "
    "out for a turn of the main model, and four characters a token."
)
_ALL = SpeculationConfig(max_speculations=16)


@dataclass(slots=True)
class Controlled:
    """Runs each setting plain and speculatively on the same tasks, and collects figures and tables."""

    tasks: Sequence[Task]
    scale: float
    quick: bool
    progress: Callable[[str], None]
    figures: dict[str, float] = field(default_factory=dict)
    tables: list[Table] = field(default_factory=list)
    pairs: int = 0
    equal: int = 0

    def run(self) -> None:
        """Run all settings."""
        asyncio.run(self._run())

    async def _run(self) -> None:
        await self._attainment()
        await self._never_right()
        await self._ahead()
        await self._fleets()
        await self._latencies()
        await self._samples()

    def _times(self, tool: float, spread: float = 0.0) -> Times:
        return Times(self.scale * GENERATION, self.scale * DRAFT, self.scale * tool, spread)

    async def _pair(
        self, tasks: Sequence[Task], times: Times, agents: int, setup: Setup, plain: Fleet | None = None
    ) -> tuple[Fleet, Fleet]:
        before = plain or await run_fleet(tasks, times, agents, None)
        after = await run_fleet(tasks, times, agents, setup)
        self.pairs += len(before.transcripts)
        self.equal += sum(
            one == other for one, other in zip(before.transcripts, after.transcripts, strict=True)
        )
        return before, after

    async def _attainment(self) -> None:
        rows: list[tuple[Cell, ...]] = []
        saved_all = optimum_all = 0.0
        tasks = self.tasks[: 8 if self.quick else 16]
        for ratio in RATIOS:
            self.progress(f"controlled drafts, tools of {ratio:g} times the model's time")
            times = self._times(ratio * GENERATION)
            plain, fast = await self._pair(tasks, times, 4, Setup(chance=0.8, config=_ALL))
            measured = TurnTimes(plain.generation_s, fast.draft_s, plain.tool_s)
            saved = sum(plain.seconds) - sum(fast.seconds)
            optimum = fast.claims * (measured.standard() - measured.speculative(1.0))
            saved_all, optimum_all = saved_all + saved, optimum_all + optimum
            rows.append(
                (ratio, round(fast.claim_rate, 3), round(100 * saved / sum(plain.seconds), 2),
                 round(100 * optimum / sum(plain.seconds), 2), round(saved / optimum, 4))
            )  # fmt: skip
        self.figures["model_attainment"] = saved_all / optimum_all
        columns = ("T/G", "claim rate", "saved %", "optimum of Eq. 2 %", "attained")
        self.tables.append(Table(title="controlled drafts against Eq. 2", columns=columns, rows=tuple(rows)))

    async def _never_right(self) -> None:
        self.progress("drafts that are never right")
        tasks = self.tasks[: 8 if self.quick else 32]
        times = self._times(GENERATION)
        ratios = []
        for _ in range(1 if self.quick else 5):
            plain, slow = await self._pair(tasks, times, 4, Setup(chance=0.0, config=_ALL))
            ratios.append(sum(slow.seconds) / sum(plain.seconds))
        self.figures["alpha0_slowdown_pct"] = 100 * (statistics.median(ratios) - 1)

    async def _ahead(self) -> None:
        rows: list[tuple[Cell, ...]] = []
        tasks = self.tasks[: 4 if self.quick else 12]
        for ratio in (0.5, 1.0, 2.0):
            self.progress(f"turn-ahead, tools of {ratio:g} times its time")
            times = self._times(ratio * GENERATION)
            plain = await run_fleet(tasks, times, 4, None)
            cells: list[Cell] = [ratio]
            for depth, looks_ahead in ((0, False), (2, False), (4, True)):
                config = SpeculationConfig(turn_ahead=TurnAhead(depth=depth) if depth else None)
                setup = Setup(chance=1.0, looks_ahead=looks_ahead, config=config)
                _, fast = await self._pair(tasks, times, 4, setup, plain)
                cells.append(round(sum(plain.seconds) / sum(fast.seconds), 3))
            rows.append(tuple(cells))
            if ratio == 1.0:
                speedup = cells[-1]
                assert isinstance(speedup, float)
                self.figures["turn_ahead_speedup"] = speedup
        self.tables.append(
            Table(
                title="speedup with right drafts: Algorithm 2, turn-ahead, and turn-ahead with a predictor "
                "that needs no results",
                columns=("T/G", "Algorithm 2", "ahead by 2", "ahead by 4, looking ahead"),
                rows=tuple(rows),
            )
        )

    async def _fleets(self) -> None:
        rows: list[tuple[Cell, ...]] = []
        for agents in AGENTS:
            self.progress(f"{agents} agents at once")
            tasks = self.tasks[: max(agents, 2) if self.quick else 2 * max(agents, 8)]
            # Many agents share one interpreter: a slower clock makes its overhead a smaller share.
            scale = self.scale * (4 if agents == max(AGENTS) else 1)
            times = Times(scale * GENERATION, scale * DRAFT, scale * 1.5, 0.2)
            plain, fast = await self._pair(tasks, times, agents, Setup(chance=0.8, config=_ALL))
            ratio = fast.tokens_per_second / plain.tokens_per_second
            saved = 100 * (1 - sum(fast.seconds) / sum(plain.seconds))
            rows.append((agents, round(fast.claim_rate, 3), round(saved, 2), round(ratio, 4)))
            self.figures[f"throughput_m{agents}_ratio"] = ratio
        columns = ("agents", "claim rate", "saved %", "throughput ratio")
        self.tables.append(Table(title="agents at once, tools of 1.5 s", columns=columns, rows=tuple(rows)))

    async def _latencies(self) -> None:
        rows: list[tuple[Cell, ...]] = []
        tasks = self.tasks[: 8 if self.quick else 32]
        for latency in LATENCIES[::3] if self.quick else LATENCIES:
            self.progress(f"tools of {latency:g} s")
            times = self._times(latency, spread=0.2)
            plain = await run_fleet(tasks, times, 8, None)
            cells: list[Cell] = [latency]
            for chance in CHANCES:
                _, fast = await self._pair(tasks, times, 8, Setup(chance=chance, config=_ALL), plain)
                cells.append(round(100 * (1 - sum(fast.seconds) / sum(plain.seconds)), 2))
            rows.append(tuple(cells))
        columns = ("tool s", *(f"saved % at {chance:.0%} a sample" for chance in CHANCES))
        self.tables.append(
            Table(title="time saved by tool latency (Figure 6)", columns=columns, rows=tuple(rows))
        )

    async def _samples(self) -> None:
        rows: list[tuple[Cell, ...]] = []
        tasks = self.tasks[: 8 if self.quick else 32]
        times = self._times(1.5, spread=0.2)
        plain = await run_fleet(tasks, times, 8, None)
        main_cost = _dollars(_MAIN_TOKENS, MAIN_PRICE)
        for chance in CHANCES:
            for samples in SAMPLES[::2] if self.quick else SAMPLES:
                self.progress(f"{samples} samples, right {chance:.0%} each")
                setup = Setup(chance=chance, samples=samples, config=_ALL)
                _, fast = await self._pair(tasks, times, 8, setup, plain)
                cost = _dollars(fast.draft_tokens, DRAFT_PRICE) / fast.turns
                rows.append(
                    (chance, samples, round(fast.claim_rate, 3),
                     round(fast.tokens_per_second - plain.tokens_per_second, 2),
                     round(100 * (1 - sum(fast.seconds) / sum(plain.seconds)), 2),
                     round(100 * cost, 5), round(100 * cost / main_cost, 3))
                )  # fmt: skip
        self.tables.append(
            Table(
                title="samples a turn (Figures 5 and 7), tools of 1.5 s",
                columns=("right a sample", "samples", "claim rate", "more tokens/s", "saved %",
                         "dollars per 100 turns", "added cost %"),
                rows=tuple(rows),
            )
        )  # fmt: skip


def _dollars(tokens: tuple[int, int], price: tuple[float, float]) -> float:
    return sum(count * each for count, each in zip(tokens, price, strict=True)) / 1e6
