"""How many calls of recorded conversations the pattern speculator guesses, learning as it goes."""

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

_QUICK_SHARE = 5  # a quick run takes the first fifth of each workload

METHOD = (
    "Recorded conversations of public benchmarks are replayed in the order of their files, one workload "
    "after the other, each with a pattern speculator that knows nothing at its beginning. Before each answer "
    "of the recorded model it is shown the messages up to there and the tools on offer and may guess up to "
    "six calls of tools that only read; afterwards it is told what the model really did. A guess counts "
    "as a claim if the answer made that very call, name and all arguments, and as a wasted run otherwise. "
    "Tools that only read are told from others by their names; of AutoDroid every tap counts, though taps "
    "are navigation rather than reads. Where a benchmark has no tool schemas, names, parameters and types "
    "are gathered from all its calls. In ToolBench's sequences the results are missing, and of calls whose "
    "arguments are missing too neither guesses nor calls count. pattern_claim_rate is the share of calls "
    "of reading tools that were claimed, pattern_precision that of guesses."
)


@dataclass(frozen=True, slots=True)
class PatternResult:
    """What came of the guesses in one workload."""

    workload: str
    conversations: int
    turns: int
    calls: int
    """Calls of reading tools whose arguments are known."""
    claims: int
    late_calls: int
    """Those of the second half of the conversations."""
    late_claims: int
    guesses: int
    guess_ms: float
    """The median time to guess."""

    @property
    def claim_rate(self) -> float:
        """The share of calls that had been guessed."""
        return self.claims / self.calls if self.calls else 0.0

    @property
    def precision(self) -> float:
        """The share of guesses that were right."""
        return self.claims / self.guesses if self.guesses else 0.0


def measure(folder: Path, *, quick: bool, progress: Callable[[str], None]) -> list[PatternResult]:
    """Replay all workloads in ``folder``; raises as :func:`~agentrt.bench.common.workloads.traced` does."""
    results = []
    for name, conversations in traced(folder).items():
        taken = conversations[: max(2, len(conversations) // _QUICK_SHARE)] if quick else conversations
        progress(f"guessing calls from patterns: {name}, {len(taken)} conversations")
        results.append(asyncio.run(_replay(name, taken)))
    return results


def figures(results: Sequence[PatternResult]) -> dict[str, float]:
    """The figures of each workload, under its name."""
    found: dict[str, float] = {}
    for result in results:
        found[f"pattern_claim_rate_{result.workload}"] = result.claim_rate
        found[f"pattern_precision_{result.workload}"] = result.precision
        found[f"pattern_wasted_runs_{result.workload}"] = float(result.guesses - result.claims)
    return found


def table(results: Sequence[PatternResult]) -> Table:
    """One row a workload."""
    return Table(
        title="calls guessed from patterns, learned online",
        columns=(
            *("workload", "conversations", "turns", "reading calls", "claimed", "claim rate"),
            *("of the second half", "precision", "wasted runs", "guess ms"),
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
                result.guesses - result.claims,
                round(result.guess_ms, 1),
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
                    await tally.guess(predictor, request, turn.calls, late=late)
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
        guesses=tally.guesses,
        guess_ms=1000 * statistics.median(tally.seconds or [0.0]),
    )


class _Tally:
    """Counts calls and guesses."""

    def __init__(self) -> None:
        self.calls = self.claims = self.late_calls = self.late_claims = self.guesses = 0
        self.seconds: list[float] = []

    async def guess(
        self, predictor: PatternSpeculator, request: DraftRequest, calls: Sequence[ToolCall], *, late: bool
    ) -> None:
        """Have one answer guessed, and judge the guesses."""
        assert request.speculable is not None
        started = time.perf_counter()
        guessed = {canonical_key(guess.name, guess.arguments) async for guess in predictor.drafts(request)}
        self.seconds.append(time.perf_counter() - started)
        made = {canonical_key(call.name, call.arguments) for call in calls if call.name in request.speculable}
        claims = len(guessed & made)
        self.guesses += len(guessed)
        self.calls += len(made)
        self.claims += claims
        if late:
            self.late_calls += len(made)
            self.late_claims += claims
