"""The nano models as agent and draft, with and without speculation, against the optimum of Eq. 1."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from agentrt.perfmodel import TurnTimes
from agentrt.reports.report import TurnReport

from ..common.machine import describe_machine
from .agent_runs import AgentRun, agent_on, ask

if TYPE_CHECKING:
    from .tasks import TimedTools

_RATIOS = (0.5, 1.0, 2.0)
PACE = 50.0  # tokens a second: about what a model of 7 billion parameters writes on a laptop
_MAX_TOKENS = 160

METHOD = """\
The nano pair: a LangGraph agent (langchain create_agent) on the nano model in the local runtime answers \
requests with ten tools, eight of them speculable, that sleep a set latency; the predictor is the nano \
draft model in the same process on one thread. time_saved_pct, model_optimum_pct and claim_rate are \
measured with the main model held to 50 tokens/s, as a larger model writes; unpaced it is as fast as its \
draft, so that there is nothing to gain (unpaced_fast_model_slowdown_pct, over all runs). Each request \
runs plain and speculative in turn; its time is the median over repetitions. model_optimum_pct is what Eq. \
1 of SpecTools saves at the measured medians of G, g and T; it knows no overhead and no shared cores. \
claim_rate is the share of all tool calls that a speculation answered."""


@dataclass
class Setting:
    """Runs at one tool latency."""

    ratio: float
    """The latency by the time of the model's turns."""
    runs: Sequence[Sequence[tuple[AgentRun, AgentRun]]]
    """Each request's repetitions, plain and speculative."""
    turns: Sequence[TurnReport]
    """Those of the speculative runs."""
    tool_s: Sequence[float]
    """Seconds of each run of a tool in the plain runs."""

    @property
    def pairs(self) -> list[tuple[AgentRun, AgentRun]]:
        """All runs."""
        return [pair for of_request in self.runs for pair in of_request]

    @property
    def equal(self) -> int:
        """Pairs with the same transcript."""
        return sum(plain.transcript == speculative.transcript for plain, speculative in self.pairs)

    @property
    def calls(self) -> int:
        """Calls of the speculative runs."""
        return sum(speculative.tool_calls for _, speculative in self.pairs)

    @property
    def claims(self) -> int:
        """Those that claimed a speculation."""
        return sum(call.hit for turn in self.turns for call in turn.calls)

    @cached_property
    def times(self) -> TurnTimes | None:
        """Medians of G, g and T; None where no draft was claimed."""
        generations = [seconds for plain, _ in self.pairs for seconds in plain.generations]
        calls = [call for turn in self.turns for call in turn.calls if call.hit]
        drafts = [call.draft_s for call in calls if call.draft_s is not None]
        if not (generations and drafts and self.tool_s):
            return None
        return TurnTimes(*map(statistics.median, (generations, drafts, self.tool_s)))

    def seconds(self, side: int) -> float:
        """Return the sum over the requests of the median time of a side."""
        return sum(statistics.median(pair[side].seconds for pair in of_request) for of_request in self.runs)

    @property
    def optimum_s(self) -> float:
        """Seconds that Eq. 1 saves on all requests once; tools of one turn run concurrently."""
        if self.times is None:
            return 0.0
        turns = round(sum(len(plain.generations) for plain, _ in self.pairs) / len(self.runs[0]))
        return self.times.standard(turns) - self.times.speculative(_share(self.claims, self.calls), turns)

    @property
    def slowdown_pct(self) -> float:
        """By how much all speculative runs together took longer than all plain ones."""
        return -_saved_pct(self.pairs)


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _saved_pct(pairs: Sequence[tuple[AgentRun, AgentRun]]) -> float:
    plain, speculative = (sum(pair[side].seconds for pair in pairs) for side in (0, 1))
    return 100 * (1 - speculative / plain)


def measure_nano(*, quick: bool, progress: Callable[[str], None]) -> tuple[list[Setting], list[Setting]]:
    """Run the nano pair on its tasks: at the pace of a larger model, and unpaced."""
    from agentrt.adapters.langchain import ChatAgentRT
    from agentrt.examples.assistant.paced import PacedChatAgentRT
    from agentrt.runtime import LocalRuntime, RuntimeConfig
    from agentrt.runtime.nano import DRAFT_DIRECTORY
    from agentrt.speculators import LocalSpeculator

    from .tasks import REQUESTS

    # One core for the draft, the others for the main model, which has the same ones when it runs alone.
    threads = max(1, describe_machine().usable_cores - 1)
    with LocalRuntime.open("nano", RuntimeConfig(threads=threads)) as runtime:
        paced = PacedChatAgentRT(runtime=runtime, max_tokens=_MAX_TOKENS, tokens_per_second=PACE)
        free = ChatAgentRT(runtime=runtime, max_tokens=_MAX_TOKENS)
        draft = LocalSpeculator(DRAFT_DIRECTORY, threads=1)
        measured: list[list[Setting]] = []
        for name, model, requests, repetitions in (
            (f"held to {PACE:g} tokens/s", paced, REQUESTS[:2] if quick else REQUESTS, 1 if quick else 2),
            ("unpaced", free, REQUESTS[:4] if quick else REQUESTS, 3 if quick else 15),
        ):
            progress(f"the nano pair, the main model {name}")
            measured.append(asyncio.run(measure_pair(model, draft, requests, repetitions, progress)))
    return measured[0], measured[1]


async def measure_pair(
    model: Any, draft: Any, requests: Sequence[str], repetitions: int, progress: Callable[[str], None]
) -> list[Setting]:
    """Run every request plain and with drafts, interleaved, ``repetitions`` times at each tool latency."""
    from agentrt.adapters.langchain import report_of, speculate

    from .tasks import TimedTools

    timed = TimedTools()
    tools = timed.tools()
    speculative = speculate(model, draft)
    agents = [agent_on(each, tools) for each in (model, speculative)]
    progress("warming up")
    # With another speculating model: the first runs that count are those in which nothing is known yet.
    warm = [agents[0], agent_on(speculate(model, draft), tools)]
    warmed = [await ask(agent, request) for request in requests for agent in warm]
    generation_s = statistics.median([seconds for run in warmed for seconds in run.generations] or [0.05])
    settings = []
    for ratio in _RATIOS:
        progress(f"tools that take {ratio:g} times the model's {1000 * generation_s:.0f} ms")
        timed.latency_s = ratio * generation_s
        before = max((turn.turn for turn in report_of(speculative).turns), default=0)
        tool_s: list[float] = []
        runs = [
            [
                await _ask_both(agents, request, number % 2 == 1, timed, tool_s)
                for number in range(repetitions)
            ]
            for request in requests
        ]
        turns = [turn for turn in report_of(speculative).turns if turn.turn > before]
        settings.append(Setting(ratio, runs, turns, tool_s))
    return settings


async def _ask_both(
    agents: Sequence[Any], request: str, speculative_first: bool, timed: TimedTools, tool_s: list[float]
) -> tuple[AgentRun, AgentRun]:
    """Run a request on the plain and the speculative agent; add the seconds of the plain agent's tools."""
    runs: dict[int, AgentRun] = {}
    for side in (1, 0) if speculative_first else (0, 1):
        timed.seconds.clear()
        runs[side] = await ask(agents[side], request)
        tool_s += timed.seconds if side == 0 else []
    return runs[0], runs[1]


def nano_figures(settings: Sequence[Setting]) -> dict[str, float]:
    """The bench's figures over all ``settings``."""
    plain_s = sum(setting.seconds(0) for setting in settings)
    calls = sum(setting.calls for setting in settings)
    return {
        "time_saved_pct": 100 * (1 - sum(setting.seconds(1) for setting in settings) / plain_s),
        "model_optimum_pct": 100 * sum(setting.optimum_s for setting in settings) / plain_s,
        "claim_rate": _share(sum(setting.claims for setting in settings), calls),
    }


def slowdown_pct(settings: Sequence[Setting]) -> float:
    """Return the mean slowdown over ``settings``, in percent."""
    return statistics.fmean(setting.slowdown_pct for setting in settings)
