"""Agents whose drafts come from a `PatternSpeculator` that does not know the tasks: SpecTools' sweeps."""

from __future__ import annotations

import asyncio
import dataclasses
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..common.estimates import Estimate, bootstrap
from ..common.report import Table
from ..common.workloads import Conversation
from .controlled import GENERATION, LATENCIES
from .patterns import TOOL, Drafts, Lived, Predicted, Replayed, claim_rate, live, precision, saved_pct

if TYPE_CHECKING:
    from agentrt.drafts import Speculator

_MOST_DRAFTS: Final = (1, 2, 6)
_AGENTS: Final = {1: 10, 8: 16, 32: 32}
"""Conversations that are done together, by how many agents there are at once."""
_SCALE: Final = 0.15
_TURNS: Final = 8
"""The most turns of a conversation in scaled time."""

METHOD = f"""\
Figure 6, the sweep over λ (SpecTools' samples a turn: here the most drafts a turn, since a pattern \
speculator makes all of its drafts at once) and M agents at once are measured on the conversations held \
back, with drafts of a predictor that has lived through the development set only. The first two are in \
virtual time. pattern_throughput_mN_ratio is in scaled time ({_SCALE:g} of 2 s an answer and 1.5 s a call), \
where predicting takes its own time on these cores: N agents live through the first {_TURNS} turns of \
conversations of the first workload (ten where one agent does them all), without drafts and with, on \
one predictor between them; it is the mean over the conversations of turns per second, with drafts by \
without, its interval over the conversations."""


def sweep_tables(results: Sequence[Replayed], latencies: Sequence[float] = LATENCIES) -> list[Table]:
    """Return Figure 6 and the sweep over λ, of each set held back."""
    held_back = [result for result in results if result.held_back]
    by_latency = tuple(
        (f"patterns, {result.workload} held back", tool_s, bootstrap(result.lived(tool_s), saved_pct))
        for result in held_back
        for tool_s in latencies
    )
    by_drafts = []
    for result in held_back:
        for most in _MOST_DRAFTS:
            lived = result.lived(most_drafts=most)
            saved = bootstrap(lived, saved_pct)
            by_drafts.append((result.workload, most, claim_rate(lived), precision(lived), saved))
    return [
        Table(
            title="time saved by tool latency, drafts from patterns (Figure 6)",
            columns=("drafts", "tool s", "saved %"),
            rows=by_latency,
        ),
        Table(
            title=f"most drafts a turn, drafts from patterns on conversations held back, tools of {TOOL:g} s",
            columns=("workload", "most drafts", "claim rate", "precision", "saved %"),
            rows=tuple(by_drafts),
        ),
    ]


@dataclass(frozen=True, slots=True)
class Pair:
    """One conversation in scaled time: its turns, and the seconds that it took plain and speculating."""

    turns: int
    plain_s: float
    fast_s: float


def throughput_ratio(pairs: Sequence[Pair]) -> float:
    """Return the mean of turns per second, speculating by plain."""
    fast = statistics.fmean(pair.turns / pair.fast_s for pair in pairs)
    return fast / statistics.fmean(pair.turns / pair.plain_s for pair in pairs)


def throughput_figures(results: Sequence[Replayed], folder: Path) -> dict[str, Estimate]:
    """Return the throughput of 1, 8 and 32 agents on the first workload that has enough held back.

    ``folder`` is for copies of what was learned: each number of agents begins with the same.
    """
    from agentrt.speculators import PatternSpeculator

    figures: dict[str, Estimate] = {}
    for agents, count in _AGENTS.items():
        found = [each for each in results if each.held_back and len(each.conversations) >= count]
        if not found:
            continue
        conversations = [_shortened(each) for each in found[0].conversations[:count]]
        store = folder / f"{agents}-agents.db"
        store.write_bytes(found[0].learned.read_bytes())
        predictor = PatternSpeculator(store)
        try:
            pairs = asyncio.run(_pairs(conversations, agents, predictor))
        finally:
            predictor.close()
        figures[f"pattern_throughput_m{agents}_ratio"] = bootstrap(pairs, throughput_ratio)
    return figures


async def _pairs(conversations: Sequence[Conversation], agents: int, predictor: Speculator) -> list[Pair]:
    """Let agents share the conversations, first plain and then speculating."""
    nothing: list[Drafts] = [[() for _ in each.turns] for each in conversations]
    plain = await _at_once(conversations, agents, [nothing[agent::agents] for agent in range(agents)])
    fast = await _at_once(conversations, agents, [predictor] * agents)
    dealt = [each for agent in range(agents) for each in conversations[agent::agents]]
    return [Pair(len(of.turns), a.seconds, b.seconds) for of, a, b in zip(dealt, plain, fast, strict=True)]


async def _at_once(
    conversations: Sequence[Conversation], agents: int, predicted: Sequence[Predicted]
) -> list[Lived]:
    lived = await asyncio.gather(
        *(
            live(conversations[agent::agents], predicted[agent], _SCALE * GENERATION, _SCALE * TOOL)
            for agent in range(agents)
        )
    )
    return [one for of_agent in lived for one in of_agent]


def _shortened(conversation: Conversation) -> Conversation:
    known = [turn for turn in conversation.turns if turn.known]
    return dataclasses.replace(conversation, turns=known[:_TURNS])
