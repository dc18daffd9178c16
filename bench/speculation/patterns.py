"""Recorded tool calls that the pattern speculator predicts while it learns online, and what that saves."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from agentrt import SpeculationConfig, SpeculationSession
from agentrt.calls import ToolCall
from agentrt.concurrency.clock import monotonic
from agentrt.drafts import DraftRequest, Speculator
from agentrt.testing import free_prediction, run_in_virtual_time

from ..common.estimates import Estimate, bootstrap, median, share
from ..common.report import Table
from ..common.workloads import Conversation, traced
from .controlled import GENERATION
from .timed_agents import TimedTool

if TYPE_CHECKING:
    from agentrt.speculators import PatternSpeculator

TOOL: Final = 1.5
"""Seconds of a tool, beside a model that takes :data:`GENERATION`."""
_QUICK_SHARE = 10  # a quick run takes the first tenth of each workload

METHOD = """\
Patterns: recorded conversations of public benchmarks are replayed in the order of their files. Those of one \
half, drawn by a hash of what they share (a user, a task, an issue), are the development set, which an \
untrained pattern speculator lives through; those of the other half are held back until it has, and then \
replayed with what its store kept. (The split is of what was learned: the predictor's few constants were \
chosen once, with both halves at hand.) Before each answer of the recorded model it may draft up to six \
calls of tools that only read, recognised by their names; of AutoDroid every tap counts, though taps are \
navigation rather than reads. Afterwards it learns the calls that the model really made. Where a benchmark \
has no tool schemas, they are gathered from all its calls; in ToolBench's sequences results are missing, \
and calls whose arguments are missing do not count. A session in virtual time lives through the \
conversations with these drafts, 2 s an answer and 1.5 s a call. pattern_claim_rate is the share of calls \
of reading tools that were claimed, pattern_precision that of speculative runs, both of the development \
set (…_held_back: of the other) with Wilson's intervals; time saved is of the time of models and tools, its \
interval over the conversations."""


Drafts = Sequence[Sequence[ToolCall]]
"""The drafts of each turn of one conversation whose calls are known."""
Predicted = Speculator | Sequence[Drafts]
"""A predictor, or the drafts that one has made for each conversation before."""


class Lived(NamedTuple):
    """One conversation; times in seconds.

    ``calls`` are those of reading tools. A speculative run is claimed or wasted.
    """

    calls: int
    claims: int
    wasted: int
    seconds: float
    plain_seconds: float
    """What model and tools take without speculation."""


def saved_pct(lived: Sequence[Lived]) -> float:
    """Return the percentage of the plain time that speculation saves; 0 of no time."""
    plain = sum(one.plain_seconds for one in lived)
    return 100 * (1 - sum(one.seconds for one in lived) / plain) if plain else 0.0


def claim_rate(lived: Sequence[Lived]) -> Estimate | None:
    """Return the share of the calls that were claimed; None without calls."""
    calls = sum(one.calls for one in lived)
    return share(sum(one.claims for one in lived), calls) if calls else None


def precision(lived: Sequence[Lived]) -> Estimate | None:
    """Return the share of the speculative runs that were claimed; None without runs."""
    claims = sum(one.claims for one in lived)
    runs = claims + sum(one.wasted for one in lived)
    return share(claims, runs) if runs else None


@dataclass(frozen=True, slots=True)
class Replayed:
    """One set of a workload, with the drafts that were made for it."""

    workload: str
    held_back: bool
    conversations: Sequence[Conversation]
    drafts: Sequence[Drafts]
    """Of each conversation."""
    draft_s: Sequence[float]
    """Seconds that the drafts of each turn took."""
    learned: Path
    """The store of a predictor that has learned the development set, and nothing else."""

    def lived(self, tool_s: float = TOOL, most_drafts: int | None = None) -> list[Lived]:
        """Return the conversations as they go in virtual time with the first drafts of each turn."""
        taken = [[each[:most_drafts] for each in drafts] for drafts in self.drafts]
        return live_through(self.conversations, taken, tool_s)


def halves(conversations: Sequence[Conversation]) -> tuple[list[Conversation], list[Conversation]]:
    """Return the conversations of the development set, and those held back: no group is in both."""

    def is_held_back(conversation: Conversation) -> bool:
        # The second byte: of the first few it makes the halves of these benchmarks the most equal.
        return bool(hashlib.sha256(conversation.group.encode()).digest()[1] % 2)

    development = [each for each in conversations if not is_held_back(each)]
    return development, [each for each in conversations if is_held_back(each)]


def replay(folder: Path, stores: Path, *, quick: bool, progress: Callable[[str], None]) -> list[Replayed]:
    """Replay all workloads in ``folder``: of each the development set, then the one held back.

    ``stores`` is an empty folder for what is learned. Raises as
    :func:`~agentrt.bench.common.workloads.traced` does.
    """
    from agentrt.speculators import PatternSpeculator

    found = []
    for name, conversations in traced(folder).items():
        taken = conversations[: max(2, len(conversations) // _QUICK_SHARE)] if quick else conversations
        learned, store = stores / f"{name}.learned", stores / f"{name}.db"
        for held_back, part in enumerate(halves(taken)):
            progress(f"pattern drafts: {name}, {len(part)} conversations{' held back' * held_back}")
            drafts, seconds = asyncio.run(_drafted(PatternSpeculator(store), part))
            if not held_back:
                learned.write_bytes(store.read_bytes())
            if part:
                found.append(Replayed(name, bool(held_back), part, drafts, seconds, learned))
    return found


_COLUMNS = (
    *("workload", "set", "conversations", "reading calls", "claimed", "claim rate", "precision"),
    *("wasted runs", "time saved %", "draft ms"),
)


def figures_and_table(results: Sequence[Replayed]) -> tuple[dict[str, Estimate], Table]:
    """Return the figures of each workload, under its name, and a table with a row for each set."""
    figures: dict[str, Estimate] = {}
    rows = []
    for result in results:
        lived = result.lived()
        claimed, right = claim_rate(lived), precision(lived)
        place = f"{result.workload}{'_held_back' if result.held_back else ''}"
        for name, each in (("claim_rate", claimed), ("precision", right)):
            if each is not None:
                figures[f"pattern_{name}_{place}"] = each
        rows.append(
            (
                result.workload,
                "held back" if result.held_back else "development",
                len(result.conversations),
                sum(one.calls for one in lived),
                sum(one.claims for one in lived),
                claimed,
                right,
                sum(one.wasted for one in lived),
                bootstrap(lived, saved_pct),
                median([1000 * each for each in result.draft_s]) if result.draft_s else None,
            )
        )
    return figures, Table(title="calls drafted from patterns", columns=_COLUMNS, rows=tuple(rows))


async def _drafted(
    predictor: PatternSpeculator, conversations: Sequence[Conversation]
) -> tuple[list[Drafts], list[float]]:
    """Return a predictor's drafts of all turns, and the seconds that each turn's took; close it."""
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


def live_through(
    conversations: Sequence[Conversation], drafts: Sequence[Drafts], tool_s: float = TOOL
) -> list[Lived]:
    """Live through conversations in one session in virtual time.

    Drafts take no time. Only turns whose calls are known are taken. Nothing depends on the machine: CPU time
    counts for nothing.
    """
    with free_prediction():
        return run_in_virtual_time(lambda: live(conversations, drafts, GENERATION, tool_s))


async def live(
    conversations: Sequence[Conversation],
    predicted: Predicted,
    generation_s: float,
    tool_s: float,
) -> list[Lived]:
    """Live through conversations in one session, with a model and tools that take these seconds."""

    async def run_tool(name: str, arguments: object) -> str:
        await asyncio.sleep(tool_s)
        return ""

    recorded = _Drafts()
    made = predicted if isinstance(predicted, Sequence) else None
    predictor = recorded if isinstance(predicted, Sequence) else predicted
    names = sorted({name for conversation in conversations for name in conversation.read_only})
    tools = [TimedTool(name, run_tool) for name in names]
    found: list[Lived] = []
    claims = wasted = 0
    async with SpeculationSession(tools, predictor, config=SpeculationConfig(report_turns=1)) as session:
        for place, conversation in enumerate(conversations):
            began, calls, plain_s = monotonic(), 0, 0.0
            for number, turn in enumerate(turn for turn in conversation.turns if turn.known):
                recorded.drafted = made[place][number] if made is not None else ()
                with session.turn(conversation.messages[: turn.history], conversation.tools) as running:
                    await asyncio.sleep(generation_s)
                    running.bind(turn.calls)
                for call in turn.calls:
                    reads = call.name in conversation.read_only
                    await (session.acall(call) if reads else asyncio.sleep(tool_s))
                    calls += reads
                plain_s += generation_s + tool_s * len(turn.calls)
            total = session.report().total
            seconds = monotonic() - began
            found.append(Lived(calls, total.claims - claims, total.wasted - wasted, seconds, plain_s))
            claims, wasted = total.claims, total.wasted
    return found


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
