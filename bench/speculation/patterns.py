"""Share of recorded tool calls that the pattern speculator predicts while it learns online."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agentrt.calls import ToolCall, canonical_key
from agentrt.drafts import DraftRequest

from ..common.report import Table
from ..common.workloads import Conversation, traced

if TYPE_CHECKING:
    from agentrt.speculators import PatternSpeculator

_QUICK_SHARE = 10  # a quick run takes the first tenth of each workload

METHOD = (
    "Recorded conversations of public benchmarks are replayed in the order of their files, one workload "
    "after the other, each with an untrained pattern speculator. Before each answer of the recorded model "
    "it gets the messages so far and the offered tools and may draft up to six calls of tools that only "
    "read; afterwards it learns the calls the model really made. A draft counts as a claim if the answer "
    "made the same call, name and all arguments, and as a wasted run otherwise. "
    "Tools that only read are recognised by their names; of AutoDroid every tap counts, though taps "
    "are navigation rather than reads. Where a benchmark has no tool schemas, names, parameters and types "
    "are gathered from all its calls. In ToolBench's sequences the results are missing, and of calls whose "
    "arguments are missing too neither drafts nor calls count. pattern_claim_rate is the share of calls "
    "of reading tools that were claimed, pattern_precision that of drafts."
)


@dataclass(frozen=True, slots=True)
class PatternResult:
    """Counts of one workload."""

    workload: str
    conversations: int
    turns: int
    calls: int
    """Calls of reading tools whose arguments are known."""
    claims: int
    late_calls: int
    """Calls in the second half of the conversations."""
    late_claims: int
    drafts: int
    draft_ms: float
    """Median time to draft, in milliseconds."""

    @property
    def claim_rate(self) -> float:
        """Claimed calls as a share of calls."""
        return self.claims / self.calls if self.calls else 0.0

    @property
    def precision(self) -> float:
        """Claimed drafts as a share of drafts."""
        return self.claims / self.drafts if self.drafts else 0.0


def measure(folder: Path, *, quick: bool, progress: Callable[[str], None]) -> list[PatternResult]:
    """Replay all workloads in ``folder``; raises as :func:`~agentrt.bench.common.workloads.traced` does."""
    results = []
    for name, conversations in traced(folder).items():
        taken = conversations[: max(2, len(conversations) // _QUICK_SHARE)] if quick else conversations
        progress(f"pattern drafts: {name}, {len(taken)} conversations")
        results.append(asyncio.run(_replay(name, taken)))
    return results


def figures(results: Sequence[PatternResult]) -> dict[str, float]:
    """The figures of each workload, under its name."""
    found: dict[str, float] = {}
    for result in results:
        found[f"pattern_claim_rate_{result.workload}"] = result.claim_rate
        found[f"pattern_precision_{result.workload}"] = result.precision
        found[f"pattern_wasted_runs_{result.workload}"] = float(result.drafts - result.claims)
    return found


def table(results: Sequence[PatternResult]) -> Table:
    """One row a workload."""
    return Table(
        title="calls drafted from patterns, learned online",
        columns=(
            *("workload", "conversations", "turns", "reading calls", "claimed", "claim rate"),
            *("of the second half", "precision", "wasted runs", "draft ms"),
        ),
        rows=tuple(
            (
                result.workload,
                result.conversations,
                result.turns,
                result.calls,
                result.claims,
                round(result.claim_rate, 3),
                round(result.late_claims / result.late_calls, 3) if result.late_calls else None,
                round(result.precision, 3),
                result.drafts - result.claims,
                round(result.draft_ms, 1),
            )
            for result in results
        ),
    )


async def _replay(workload: str, conversations: Sequence[Conversation]) -> PatternResult:
    from agentrt.speculators import PatternSpeculator

    predictor = PatternSpeculator()
    tally = _Tally()
    try:
        for number, conversation in enumerate(conversations):
            late = 2 * number >= len(conversations)
            for turn in conversation.turns:
                if turn.known:
                    request = DraftRequest(
                        conversation.messages[: turn.history],
                        conversation.tools,
                        speculable=conversation.read_only,
                    )
                    await tally.judge(predictor, request, turn.calls, late=late)
                    predictor.learn(request, turn.calls)
    finally:
        predictor.close()
    return PatternResult(
        workload=workload,
        conversations=len(conversations),
        turns=sum(len(conversation.turns) for conversation in conversations),
        calls=tally.calls,
        claims=tally.claims,
        late_calls=tally.late_calls,
        late_claims=tally.late_claims,
        drafts=tally.drafts,
        draft_ms=1000 * statistics.median(tally.seconds or [0.0]),
    )


class _Tally:
    """Counts calls and drafts."""

    def __init__(self) -> None:
        self.calls = self.claims = self.late_calls = self.late_claims = self.drafts = 0
        self.seconds: list[float] = []

    async def judge(
        self, predictor: PatternSpeculator, request: DraftRequest, calls: Sequence[ToolCall], *, late: bool
    ) -> None:
        """Draft one answer's calls and compare them with ``calls``."""
        assert request.speculable is not None
        started = time.perf_counter()
        drafted = {canonical_key(call.name, call.arguments) async for call in predictor.drafts(request)}
        self.seconds.append(time.perf_counter() - started)
        made = {canonical_key(call.name, call.arguments) for call in calls if call.name in request.speculable}
        claims = len(drafted & made)
        self.drafts += len(drafted)
        self.calls += len(made)
        self.claims += claims
        if late:
            self.late_calls += len(made)
            self.late_claims += claims
