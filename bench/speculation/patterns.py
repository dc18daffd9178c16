"""Recorded tool calls that the pattern speculator predicts while it learns online, and what that saves."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentrt.calls import ToolCall
from agentrt.drafts import DraftRequest

from ..common.report import Table
from ..common.workloads import Conversation, traced
from .recorded import GENERATION_S, TOOL_S, Drafts, Lived, live_through

_QUICK_SHARE = 10  # a quick run takes the first tenth of each workload

METHOD = (
    "Recorded conversations of public benchmarks are replayed in the order of their files, one workload "
    "after the other, each with an untrained pattern speculator. Before each answer of the recorded model "
    "it gets the messages so far and the offered tools and may draft up to six calls of tools that only "
    "read; afterwards it learns the calls the model really made. A session in virtual time then lives "
    "through the conversations with these drafts. In it the model takes "
    f"{GENERATION_S:g} s for an answer and a tool {TOOL_S:g} s for a call. "
    "Tools that only read are recognised by their names; of AutoDroid every tap counts, though taps "
    "are navigation rather than reads. Where a benchmark has no tool schemas, names, parameters and types "
    "are gathered from all its calls. In ToolBench's sequences and in the plans of NESTFUL and tau the "
    "results are missing. Calls whose arguments are missing too, or refer to results, do not count, nor do "
    "drafts of them. pattern_claim_rate is the share of calls of reading tools that were claimed, "
    "pattern_precision that of speculative runs, pattern_time_saved_pct is of the time of models and tools."
)


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
        late=totals[-1] - totals[half - 1] if half else totals[-1],
        draft_ms=1000 * statistics.median(seconds or [0.0]),
    )


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
