"""The nano models as agent and draft, with and without speculation, against the optimum of Eq. 1."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agentrt.perfmodel import TurnTimes

from ..common.repetitions import spread_cells, spread_columns
from ..common.report import Cell, Table
from .agent_runs import AgentRun, agent_on, ask

if TYPE_CHECKING:
    from .tasks import TimedTools

_RATIOS = (0.5, 1.0, 2.0)
PACE = 50.0  # tokens a second: about what a model of 7 billion parameters writes on a laptop
_MAX_TOKENS = 160

METHOD = (
    "The nano pair: a LangGraph agent (langchain create_agent) on the nano model in the local runtime "
    "answers requests with ten tools, eight of them speculable, that sleep a set latency; the "
    "predictor is the nano draft model in the same process on one thread, and the main model has "
    "{threads} thread(s) in both. The nano main model is as fast as its draft, so that by itself there "
    "is nothing to gain (time_saved_pct_unpaced); time_saved_pct, model_optimum_pct and claim_rate are "
    "measured with the main model held to {pace:g} tokens/s, as a larger model writes. Each request "
    "runs plain and speculative in turn; its time is the median over repetitions, and times are summed "
    "over requests. unpaced_fast_model_slowdown_pct compares the sums of all unpaced runs, beginning with "
    "the first, in which nothing has been measured yet. G, g and T are medians as measured; "
    "model_optimum_pct is what Eq. 1 of SpecTools saves at these values; it knows no overhead and no shared "
    "cores. claim_rate is the share of all tool calls, also of tools that are not speculable, that a "
    "speculation answered."
)


@dataclass(frozen=True, slots=True)
class Setting:
    """Measurements at one tool latency."""

    ratio: float
    plain_s: float
    speculative_s: float
    times: TurnTimes | None
    turns: int
    calls: int
    claims: int
    wasted: int
    pairs: int
    equal: int
    saved_pcts: tuple[float, ...]
    """Time saved in each repetition, over all requests."""
    slowdown_pct: float
    """By how much all speculative runs together took longer than all plain ones."""

    @property
    def claim_rate(self) -> float:
        """Claimed calls as a share of all calls of speculable tools."""
        return self.claims / self.calls if self.calls else 0.0

    @property
    def optimum_s(self) -> float:
        """Seconds that Eq. 1 saves on all requests once; tools of one turn run concurrently."""
        if self.times is None:
            return 0.0
        return self.times.standard(self.turns) - self.times.speculative(self.claim_rate, self.turns)

    def row(self) -> tuple[Cell, ...]:
        """The setting as a row of :func:`nano_table`."""
        times = self.times
        in_ms = (
            (None, None, None)
            if times is None
            else tuple(round(1000 * value, 1) for value in (times.generation, times.draft, times.tool))
        )
        return (
            self.ratio,
            *in_ms,
            self.calls,
            round(self.claim_rate, 3),
            self.wasted,
            round(self.plain_s, 3),
            round(self.speculative_s, 3),
            *spread_cells(self.saved_pcts, 1),
            round(100 * self.optimum_s / self.plain_s, 1),
            round(self.slowdown_pct, 2),
        )


def measure_nano(*, quick: bool, progress: Callable[[str], None]) -> NanoFigures:
    """Run the nano pair on its tasks, once at the pace of a larger model and once unpaced."""
    from agentrt.adapters.langchain import ChatAgentRT, speculate
    from agentrt.examples.assistant.paced import PacedChatAgentRT
    from agentrt.runtime import LocalRuntime, RuntimeConfig
    from agentrt.runtime.nano import DRAFT_DIRECTORY
    from agentrt.speculators import LocalSpeculator

    from ..common.machine import describe_machine
    from .tasks import REQUESTS, TimedTools

    # One core for the draft, the others for the main model, which has the same ones when it runs alone.
    threads = max(1, describe_machine().usable_cores - 1)
    with LocalRuntime.open("nano", RuntimeConfig(threads=threads)) as runtime:
        free = ChatAgentRT(runtime=runtime, max_tokens=_MAX_TOKENS)
        paced = PacedChatAgentRT(runtime=runtime, max_tokens=_MAX_TOKENS, tokens_per_second=PACE)
        draft = LocalSpeculator(DRAFT_DIRECTORY, threads=1)

        def settings(model: Any, requests: Sequence[str], repetitions: int) -> list[Setting]:
            fast, warm = speculate(model, draft), speculate(model, draft)
            bench = NanoBench(model, fast, TimedTools(), requests, warm=warm)
            return asyncio.run(bench.measure(repetitions, progress))

        progress(f"the nano pair, the main model held to {PACE:g} tokens/s")
        held = settings(paced, REQUESTS[:2] if quick else REQUESTS, 1 if quick else 2)
        progress("the nano pair, unpaced")
        unpaced = settings(free, REQUESTS[:4] if quick else REQUESTS, 3 if quick else 15)
        progress("claims of the nano draft by samples")
        rows: list[tuple[Cell, ...]] = []
        for samples in (1, 3) if quick else (1, 3, 9):
            bench = NanoBench(
                paced, speculate(paced, draft, samples=samples), TimedTools(), REQUESTS[: 1 if quick else 16]
            )
            each = [asyncio.run(bench.claims(progress)) for _ in range(2 if quick else 3)]
            wasted = statistics.median(one.wasted for one in each)
            rows.append((samples, *spread_cells([one.claim_rate for one in each], 3), wasted))
    by_samples = Table(
        title="claims of the nano draft by samples a turn (Figure 5, real draft)",
        columns=("samples", *spread_columns("claim rate"), "wasted runs"),
        rows=tuple(rows),
    )
    return NanoFigures(held, unpaced, by_samples, threads)


@dataclass(frozen=True, slots=True)
class NanoFigures:
    """Figures and tables of the nano pair."""

    paced: list[Setting]
    unpaced: list[Setting]
    by_samples: Table
    threads: int


class NanoBench:
    """Two agents that differ in nothing but speculation, and the tools they share."""

    def __init__(
        self, plain: Any, speculative: Any, timed: TimedTools, requests: Sequence[str], *, warm: Any = None
    ) -> None:
        """``plain`` and ``speculative`` are chat models that differ in speculation only.

        ``warm`` is the speculative model of the warm-up, where that must not teach ``speculative``.
        """
        tools = timed.tools()
        self._timed = timed
        self._speculative_model = speculative
        self._plain = agent_on(plain, tools)
        self._speculative = agent_on(speculative, tools)
        self._warm = self._speculative if warm is None else agent_on(warm, tools)
        self._requests = requests

    async def measure(self, repetitions: int, progress: Callable[[str], None]) -> list[Setting]:
        """Time both agents on every request, interleaved, ``repetitions`` times in each setting."""
        progress("warming up")
        agents = (self._plain, self._warm)
        warm = [await ask(agent, request) for request in self._requests for agent in agents]
        generations = [seconds for each in warm for seconds in each.generations]
        generation_s = statistics.median(generations) if generations else 0.05
        settings = []
        for ratio in _RATIOS:
            progress(f"tools that take {ratio:g} times the model's {1000 * generation_s:.0f} ms")
            settings.append(await self._setting(ratio, ratio * generation_s, repetitions, progress))
        return settings

    async def claims(self, progress: Callable[[str], None]) -> Setting:
        """Run each request once with tools as slow as the model."""
        return await self._setting(1.0, 0.5, 1, progress)

    async def _setting(
        self, ratio: float, latency_s: float, repetitions: int, progress: Callable[[str], None]
    ) -> Setting:
        from agentrt.adapters.langchain import report_of

        self._timed.latency_s = latency_s
        before = max((turn.turn for turn in report_of(self._speculative_model).turns), default=0)
        pairs: list[list[tuple[AgentRun, AgentRun]]] = []
        tool_seconds: list[float] = []
        for request in self._requests:
            progress(f"  {request}")
            pairs.append([])
            for repetition in range(repetitions):
                self._timed.seconds.clear()
                if repetition % 2:  # neither side always goes first
                    speculative = await ask(self._speculative, request)
                    self._timed.seconds.clear()
                    plain = await ask(self._plain, request)
                    tool_seconds += self._timed.seconds
                else:
                    plain = await ask(self._plain, request)
                    tool_seconds += self._timed.seconds
                    speculative = await ask(self._speculative, request)
                pairs[-1].append((plain, speculative))
        turns = [turn for turn in report_of(self._speculative_model).turns if turn.turn > before]
        flat = [pair for of_request in pairs for pair in of_request]
        claimed = [call for turn in turns for call in turn.calls if call.hit]
        drafts = [call.draft_s for call in claimed if call.draft_s is not None]
        generations = [seconds for plain, _ in flat for seconds in plain.generations]
        times = None
        if drafts and generations and tool_seconds:
            times = TurnTimes(*map(statistics.median, (generations, drafts, tool_seconds)))
        return Setting(
            ratio=ratio,
            plain_s=_sum_of_medians(pairs, 0),
            speculative_s=_sum_of_medians(pairs, 1),
            times=times,
            turns=round(len(generations) / repetitions),
            calls=sum(speculative.tool_calls for _, speculative in flat),
            claims=len(claimed),
            wasted=sum(turn.wasted for turn in turns),
            pairs=len(flat),
            saved_pcts=tuple(
                100 * (1 - _sum_of(repetition, 1) / _sum_of(repetition, 0))
                for repetition in zip(*pairs, strict=True)
            ),
            slowdown_pct=100 * (_sum_of(flat, 1) / _sum_of(flat, 0) - 1),
            equal=sum(plain.transcript == speculative.transcript for plain, speculative in flat),
        )


def _sum_of(pairs: Sequence[tuple[AgentRun, AgentRun]], side: int) -> float:
    return sum(pair[side].seconds for pair in pairs)


def _sum_of_medians(pairs: Sequence[Sequence[tuple[AgentRun, AgentRun]]], side: int) -> float:
    return sum(statistics.median(pair[side].seconds for pair in of_request) for of_request in pairs)


def nano_figures(settings: Sequence[Setting]) -> dict[str, float]:
    """The bench's figures over all ``settings``."""
    plain_s = sum(setting.plain_s for setting in settings)
    calls = sum(setting.calls for setting in settings)
    return {
        "time_saved_pct": 100 * (1 - sum(setting.speculative_s for setting in settings) / plain_s),
        "model_optimum_pct": 100 * sum(setting.optimum_s for setting in settings) / plain_s,
        "claim_rate": sum(setting.claims for setting in settings) / calls if calls else 0.0,
        "transcripts_equal": sum(setting.equal for setting in settings)
        / sum(setting.pairs for setting in settings),
        "turns": float(sum(setting.turns for setting in settings)),
    }


def slowdown_pct(settings: Sequence[Setting]) -> float:
    """Return the mean slowdown over ``settings``, in percent."""
    return statistics.fmean(setting.slowdown_pct for setting in settings)


def nano_table(title: str, settings: Sequence[Setting]) -> Table:
    """One row a setting."""
    return Table(
        title=title,
        columns=(
            *("T/G", "G ms", "g ms", "T ms", "tool calls", "claim rate", "wasted runs"),
            *("plain s", "speculative s", *spread_columns("saved %"), "optimum %", "slowdown of all runs %"),
        ),
        rows=tuple(setting.row() for setting in settings),
    )
