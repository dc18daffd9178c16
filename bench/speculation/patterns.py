"""Recorded tool calls that the pattern speculator predicts while it learns online, and what that saves."""

from __future__ import annotations

import asyncio
import operator
import statistics
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from agentrt import SpeculationConfig, SpeculationSession
from agentrt.calls import ToolCall
from agentrt.drafts import DraftRequest
from agentrt.testing import free_prediction, run_in_virtual_time

from ..common.report import Table
from ..common.workloads import Conversation, traced
from .timed_agents import TimedTool

_GENERATION_S = 0.8
_TOOL_S = 0.5
_QUICK_SHARE = 10  # a quick run takes the first tenth of each workload

METHOD = """\
Recorded conversations of public benchmarks are replayed in the order of their files, one workload after \
the other, each with an untrained pattern speculator. Before each answer of the recorded model it may \
draft up to six calls of tools that only read, recognised by their names; of AutoDroid every tap counts, \
though taps are navigation rather than reads. Afterwards it learns the calls that the model really made. \
Where a benchmark has no tool schemas, they are gathered from all its calls; in ToolBench's sequences \
results are missing, and calls whose arguments are missing do not count. A session in virtual time lives \
through the conversations with these drafts, 0.8 s an answer and 0.5 s a call. pattern_claim_rate is the \
share of calls of reading tools that were claimed, pattern_precision that of speculative runs, \
pattern_time_saved_pct is of the time of models and tools."""


class Lived(NamedTuple):
    """Totals of conversations; times in virtual seconds.

    ``calls`` are those of reading tools. A speculative run is claimed or wasted.
    """

    calls: int
    claims: int
    wasted: int
    seconds: float
    plain_seconds: float
    """What model and tools take without speculation."""

    @property
    def saved_share(self) -> float:
        """The share of the plain time that speculation saves."""
        return 1 - self.seconds / self.plain_seconds if self.plain_seconds else 0.0

    @property
    def claim_rate(self) -> float:
        """The share of the calls that were claimed."""
        return self.claims / self.calls if self.calls else 0.0

    @property
    def wasted_share(self) -> float:
        """The share of the speculative runs that are wasted."""
        return self.wasted / (self.claims + self.wasted) if self.wasted else 0.0


@dataclass(frozen=True, slots=True)
class PatternResult:
    """Totals of one workload; ``late`` are those of the second half of its conversations."""

    workload: str
    conversations: int
    turns: int
    total: Lived
    late: Lived
    draft_ms: float
    """Median time to draft, in milliseconds."""


def measure(folder: Path, *, quick: bool, progress: Callable[[str], None]) -> list[PatternResult]:
    """Replay all workloads in ``folder``; raises as :func:`~agentrt.bench.common.workloads.traced` does."""
    results = []
    for name, conversations in traced(folder).items():
        taken = conversations[: max(2, len(conversations) // _QUICK_SHARE)] if quick else conversations
        progress(f"pattern drafts: {name}, {len(taken)} conversations")
        results.append(_result(name, taken))
    return results


def figures(results: Sequence[PatternResult]) -> dict[str, float]:
    """The figures of each workload, under its name."""
    found: dict[str, float] = {}
    for result in results:
        total = result.total
        found[f"pattern_claim_rate_{result.workload}"] = total.claim_rate
        found[f"pattern_precision_{result.workload}"] = 1 - total.wasted_share
        found[f"pattern_wasted_runs_{result.workload}"] = float(total.wasted)
        found[f"pattern_time_saved_pct_{result.workload}"] = 100 * total.saved_share
    return found


def table(results: Sequence[PatternResult]) -> Table:
    """One row a workload."""
    return Table(
        title="calls drafted from patterns, learned online",
        columns=(
            *("workload", "conversations", "turns", "reading calls", "claimed", "claim rate"),
            *("of the second half", "precision", "wasted runs", "time saved %", "draft ms"),
        ),
        rows=tuple(
            (
                result.workload,
                result.conversations,
                result.turns,
                result.total.calls,
                result.total.claims,
                round(result.total.claim_rate, 3),
                round(result.late.claim_rate, 3) if result.late.calls else None,
                round(1 - result.total.wasted_share, 3),
                result.total.wasted,
                round(100 * result.total.saved_share, 1),
                round(result.draft_ms, 1),
            )
            for result in results
        ),
    )


def _result(workload: str, conversations: Sequence[Conversation]) -> PatternResult:
    drafts, seconds = asyncio.run(_drafted(conversations))
    totals = live_through(conversations, drafts)
    half = len(conversations) // 2
    return PatternResult(
        workload=workload,
        conversations=len(conversations),
        turns=sum(len(conversation.turns) for conversation in conversations),
        total=totals[-1],
        late=_later(totals, half),
        draft_ms=1000 * statistics.median(seconds or [0.0]),
    )


def _later(totals: Sequence[Lived], half: int) -> Lived:
    """Return the totals of the conversations after the first ``half``."""
    before = totals[half - 1] if half else Lived(0, 0, 0, 0.0, 0.0)
    return Lived(*map(operator.sub, totals[-1], before))


async def _drafted(conversations: Sequence[Conversation]) -> tuple[list[Drafts], list[float]]:
    """Return an untrained predictor's drafts of all turns, and the seconds that each turn's took."""
    from agentrt.speculators import PatternSpeculator

    predictor = PatternSpeculator()
    drafts: list[Drafts] = []
    seconds: list[float] = []
    try:
        for conversation in conversations:
            of_turns: list[list[ToolCall]] = []
            for turn in conversation.turns:
                if turn.known:
                    messages = conversation.messages[: turn.history]
                    request = DraftRequest(messages, conversation.tools, speculable=conversation.read_only)
                    started = time.perf_counter()
                    of_turns.append([call async for call in predictor.drafts(request)])
                    seconds.append(time.perf_counter() - started)
                    predictor.learn(request, turn.calls)
            drafts.append(of_turns)
    finally:
        predictor.close()
    return drafts, seconds


Drafts = Sequence[Sequence[ToolCall]]
"""The drafts of each turn of one conversation whose calls are known."""


def live_through(conversations: Sequence[Conversation], drafts: Sequence[Drafts]) -> list[Lived]:
    """Live through conversations in one session in virtual time; return its totals after each of them.

    Drafts take no time. Only turns whose calls are known are taken. Nothing depends on the machine: CPU time
    counts for nothing.
    """
    with free_prediction():
        return run_in_virtual_time(lambda: _live(conversations, drafts))


async def _live(conversations: Sequence[Conversation], drafts: Sequence[Drafts]) -> list[Lived]:
    names = sorted({name for conversation in conversations for name in conversation.read_only})
    predictor = _Drafts()
    began = asyncio.get_running_loop().time()
    calls, plain_s, totals = 0, 0.0, list[Lived]()
    config = SpeculationConfig(report_turns=1)
    tools = [TimedTool(name, _wait) for name in names]
    async with SpeculationSession(tools, predictor, config=config) as session:
        for conversation, of_turns in zip(conversations, drafts, strict=True):
            known = [turn for turn in conversation.turns if turn.known]
            for turn, predictor.drafted in zip(known, of_turns, strict=True):
                with session.turn(conversation.messages[: turn.history], conversation.tools) as running:
                    await asyncio.sleep(_GENERATION_S)
                    running.bind(turn.calls)
                for call in turn.calls:
                    reads = call.name in conversation.read_only
                    await (session.acall(call) if reads else asyncio.sleep(_TOOL_S))
                    calls += reads
                plain_s += _GENERATION_S + _TOOL_S * len(turn.calls)
            total = session.report().total
            seconds = asyncio.get_running_loop().time() - began
            totals.append(Lived(calls, total.claims, total.wasted, seconds, plain_s))
    return totals


async def _wait(name: str, arguments: object) -> str:
    """Do a tool's work, whatever its arguments."""
    await asyncio.sleep(_TOOL_S)
    return ""


class _Drafts:
    """A predictor of drafts that were made before."""

    name = "recorded"
    shares_cores = False

    def __init__(self) -> None:
        self.drafted: Sequence[ToolCall] = ()
        """Those of the present turn."""

    async def drafts(self, request: DraftRequest) -> AsyncIterator[ToolCall]:
        for call in self.drafted:
            yield call
