"""The speculation bench: an agent with and without speculation, against the optimum of Eq. 1."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..perfmodel import TurnTimes
from .machine import describe_machine
from .report import BenchReport, Cell, Table

if TYPE_CHECKING:
    from ._speculation_tasks import TimedTools

_SYSTEM_PROMPT = "You are a helpful assistant."
_RATIOS = (0.5, 1.0, 2.0)
_MAX_STEPS = 12
_MAX_TOKENS = 160

_METHOD = (
    "A LangGraph agent (langchain create_agent) on the nano model in the local runtime answers {tasks} "
    "requests with ten tools, eight of them speculable, that wait a set latency in earnest. Each "
    "request runs plain and speculative in turn, {repetitions} times for each latency; the predictor is "
    "the nano draft model in the same process on one thread, with {samples} sample(s), and the main "
    "model has {threads} thread(s) in both. Everything is warm before the clock starts. A request's "
    "time is the median over its repetitions, and times are summed over requests. G, g and T are "
    "medians as measured: G of the plain runs' turns that called tools, T inside the tools of the plain "
    "runs, g until the draft of a call that was made. claim_rate is the share of all tool calls, also "
    "of tools that are not speculable, that a speculation answered. model_optimum_pct is what Eq. 1 of "
    "SpecTools saves at these values of the plain time; it knows no overhead and no shared cores. "
    "transcripts_equal is the share of pairs of runs whose messages are the same but for ids. turns is "
    "the number of turns that called tools in one pass."
)


@dataclass(frozen=True, slots=True)
class _Run:
    """One request, run once."""

    seconds: float
    transcript: tuple[Any, ...]
    generations: tuple[float, ...]
    """Seconds of each turn of the model that called tools."""
    tool_calls: int


@dataclass(frozen=True, slots=True)
class _Setting:
    """What was measured at one tool latency."""

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

    @property
    def claim_rate(self) -> float:
        return self.claims / self.calls if self.calls else 0.0

    @property
    def optimum_s(self) -> float:
        """The seconds that Eq. 1 saves of one pass over the requests; each turn's tools run at once."""
        if self.times is None:
            return 0.0
        return self.times.standard(self.turns) - self.times.speculative(self.claim_rate, self.turns)

    def row(self) -> tuple[Cell, ...]:
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
            round(100 * (1 - self.speculative_s / self.plain_s), 1),
            round(100 * self.optimum_s / self.plain_s, 1),
        )


def run(*, quick: bool, workloads: Path | None, progress: Callable[[str], None]) -> BenchReport:
    """Measure what speculation saves an agent on the local models, and what it could save at best.

    ``workloads`` is not used: the requests are this bench's own.
    """
    from ..adapters.langchain import ChatAgentRT, speculate
    from ..runtime import LocalRuntime, RuntimeConfig
    from ..runtime.nano import DRAFT_DIRECTORY
    from ..speculators import LocalSpeculator
    from ._speculation_tasks import REQUESTS, TimedTools

    machine = describe_machine()
    requests = REQUESTS[:8] if quick else REQUESTS
    repetitions = 5 if quick else 25
    samples = 1
    # One core for the draft, the others for the main model, which has the same ones when it runs alone.
    threads = max(1, machine.usable_cores - 1)
    with LocalRuntime.open("nano", RuntimeConfig(threads=threads)) as runtime:
        plain = ChatAgentRT(runtime=runtime, max_tokens=_MAX_TOKENS)
        bench = _Bench(
            plain,
            speculate(plain, LocalSpeculator(DRAFT_DIRECTORY, threads=1), samples=samples),
            TimedTools(),
            requests,
        )
        settings = asyncio.run(bench.measure(repetitions, progress))
    return BenchReport(
        bench="speculation",
        machine=machine,
        figures=_figures(settings),
        tables=(_table(settings),),
        method=_METHOD.format(tasks=len(requests), repetitions=repetitions, samples=samples, threads=threads),
    )


class _Bench:
    """Two agents that differ in nothing but speculation, and the tools they share."""

    def __init__(self, plain: Any, speculative: Any, timed: TimedTools, requests: Sequence[str]) -> None:
        from langchain.agents import create_agent

        tools = timed.tools()
        self._timed = timed
        self._speculative_model = speculative
        self._plain = create_agent(plain, tools, system_prompt=_SYSTEM_PROMPT)
        self._speculative = create_agent(speculative, tools, system_prompt=_SYSTEM_PROMPT)
        self._requests = requests

    async def measure(self, repetitions: int, progress: Callable[[str], None]) -> list[_Setting]:
        progress("warming up")
        warm = [await self._ask(agent, request) for request in self._requests for agent in self._agents]
        generations = [seconds for each in warm for seconds in each.generations]
        generation_s = statistics.median(generations) if generations else 0.05
        settings = []
        for ratio in _RATIOS:
            progress(f"tools that take {ratio:g} times the model's {1000 * generation_s:.0f} ms")
            settings.append(await self._setting(ratio, ratio * generation_s, repetitions, progress))
        return settings

    @property
    def _agents(self) -> tuple[Any, Any]:
        return self._plain, self._speculative

    async def _setting(
        self, ratio: float, latency_s: float, repetitions: int, progress: Callable[[str], None]
    ) -> _Setting:
        from ..adapters.langchain import report_of

        self._timed.latency_s = latency_s
        before = report_of(self._speculative_model).turns[-1].turn
        pairs: list[list[tuple[_Run, _Run]]] = []
        tool_seconds: list[float] = []
        for request in self._requests:
            progress(f"  {request}")
            pairs.append([])
            for repetition in range(repetitions):
                self._timed.seconds.clear()
                if repetition % 2:  # neither side always goes first
                    speculative = await self._ask(self._speculative, request)
                    self._timed.seconds.clear()
                    plain = await self._ask(self._plain, request)
                    tool_seconds += self._timed.seconds
                else:
                    plain = await self._ask(self._plain, request)
                    tool_seconds += self._timed.seconds
                    speculative = await self._ask(self._speculative, request)
                pairs[-1].append((plain, speculative))
        turns = [turn for turn in report_of(self._speculative_model).turns if turn.turn > before]
        flat = [pair for of_request in pairs for pair in of_request]
        claimed = [call for turn in turns for call in turn.calls if call.hit]
        drafts = [call.draft_s for call in claimed if call.draft_s is not None]
        generations = [seconds for plain, _ in flat for seconds in plain.generations]
        times = None
        if drafts and generations and tool_seconds:
            times = TurnTimes(*map(statistics.median, (generations, drafts, tool_seconds)))
        return _Setting(
            ratio=ratio,
            plain_s=_sum_of_medians(pairs, 0),
            speculative_s=_sum_of_medians(pairs, 1),
            times=times,
            turns=round(len(generations) / repetitions),
            calls=sum(speculative.tool_calls for _, speculative in flat),
            claims=len(claimed),
            wasted=sum(turn.wasted for turn in turns),
            pairs=len(flat),
            equal=sum(plain.transcript == speculative.transcript for plain, speculative in flat),
        )

    async def _ask(self, agent: Any, request: str) -> _Run:
        from langchain_core.messages import AIMessage

        started = time.perf_counter()
        messages = await _messages(agent, request)
        seconds = time.perf_counter() - started
        answers = [message for message in messages if isinstance(message, AIMessage)]
        return _Run(
            seconds=seconds,
            transcript=tuple(_without_ids(message) for message in messages),
            generations=tuple(
                answer.response_metadata["timing"]["total_s"] for answer in answers if answer.tool_calls
            ),
            tool_calls=sum(len(answer.tool_calls) for answer in answers),
        )


async def _messages(agent: Any, request: str) -> list[Any]:
    """The messages of one run; of a model that never comes to an answer those up to the last step allowed."""
    from langgraph.errors import GraphRecursionError

    messages: list[Any] = []
    given = {"messages": [("user", request)]}
    with suppress(GraphRecursionError):
        async for state in agent.astream(given, {"recursion_limit": _MAX_STEPS}, stream_mode="values"):
            messages = state["messages"]
    return messages


def _without_ids(message: Any) -> tuple[Any, ...]:
    calls = [(call["name"], sorted(call["args"].items())) for call in getattr(message, "tool_calls", [])]
    return message.type, message.text, repr(calls)


def _sum_of_medians(pairs: Sequence[Sequence[tuple[_Run, _Run]]], side: int) -> float:
    return sum(statistics.median(pair[side].seconds for pair in of_request) for of_request in pairs)


def _figures(settings: Sequence[_Setting]) -> dict[str, float]:
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


def _table(settings: Sequence[_Setting]) -> Table:
    return Table(
        title="plain and speculative, by tool latency",
        columns=(
            *("T/G", "G ms", "g ms", "T ms", "tool calls", "claim rate", "wasted runs"),
            *("plain s", "speculative s", "saved %", "optimum %"),
        ),
        rows=tuple(setting.row() for setting in settings),
    )
