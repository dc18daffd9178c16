"""Recorded conversations, lived through again by a session in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentrt import SpeculationConfig, SpeculationSession
from agentrt.calls import ToolCall
from agentrt.drafts import DraftRequest
from agentrt.testing import free_prediction, run_in_virtual_time
from agentrt.tools.speculable_tool import Invocation, SpeculableOptions, SpeculableTool

from ..common.workloads import Conversation

GENERATION_S = 0.8
TOOL_S = 0.5

Drafts = Sequence[Sequence[ToolCall]]
"""The drafts of each turn of one conversation whose calls are known."""


@dataclass(frozen=True, slots=True)
class Lived:
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

    def __sub__(self, other: Lived) -> Lived:
        """Return what these totals are more than ``other``."""
        return Lived(
            self.calls - other.calls,
            self.claims - other.claims,
            self.wasted - other.wasted,
            self.seconds - other.seconds,
            self.plain_seconds - other.plain_seconds,
        )


def live_through(
    conversations: Sequence[Conversation],
    drafts: Sequence[Drafts],
    *,
    draft_s: float = 0.0,
    shares_cores: bool = False,
    turns: int | None = None,
) -> list[Lived]:
    """Live through conversations in one session; return its totals after each of them.

    The model takes 0.8 s for an answer and a tool 0.5 s for a call; a turn's drafts come after ``draft_s``.
    Only the first ``turns`` turns of each conversation are taken, and of these only those whose calls are
    known. Nothing depends on the machine: CPU time counts for nothing.
    """
    with free_prediction():
        return run_in_virtual_time(lambda: _live(conversations, drafts, draft_s, shares_cores, turns))


async def _live(
    conversations: Sequence[Conversation],
    drafts: Sequence[Drafts],
    draft_s: float,
    shares_cores: bool,
    most_turns: int | None,
) -> list[Lived]:
    names = sorted({name for conversation in conversations for name in conversation.read_only})
    predictor = _Drafts(draft_s, shares_cores)
    began = asyncio.get_running_loop().time()
    calls, plain_s, totals = 0, 0.0, list[Lived]()
    config = SpeculationConfig(report_turns=1)
    async with SpeculationSession([_Tool(name) for name in names], predictor, config=config) as session:
        for conversation, of_turns in zip(conversations, drafts, strict=True):
            known = [turn for turn in conversation.turns if turn.known][:most_turns]
            for turn, predictor.drafted in zip(known, of_turns, strict=False):
                with session.turn(conversation.messages[: turn.history], conversation.tools) as running:
                    await asyncio.sleep(GENERATION_S)
                    running.bind(turn.calls)
                for call in turn.calls:
                    reads = call.name in conversation.read_only
                    await (session.acall(call) if reads else asyncio.sleep(TOOL_S))
                    calls += reads
                plain_s += GENERATION_S + TOOL_S * len(turn.calls)
            total = session.report().total
            seconds = asyncio.get_running_loop().time() - began
            totals.append(Lived(calls, total.claims, total.wasted, seconds, plain_s))
    return totals


class _Drafts:
    """A predictor of drafts that were made before."""

    name = "recorded"

    def __init__(self, draft_s: float, shares_cores: bool) -> None:
        self.shares_cores = shares_cores
        self.drafted: Sequence[ToolCall] = ()
        """Those of the present turn."""
        self._draft_s = draft_s

    async def drafts(self, request: DraftRequest) -> AsyncIterator[ToolCall]:
        """Yield the drafts of the present turn."""
        drafted = self.drafted
        await asyncio.sleep(self._draft_s)
        for call in drafted:
            yield call


class _Tool:
    """A tool that takes 0.5 s, whatever its arguments."""

    def __init__(self, name: str) -> None:
        async def run(arguments: Mapping[str, Any]) -> str:
            await asyncio.sleep(TOOL_S)
            return ""

        self.__speculable__ = SpeculableTool(
            name,
            bind=lambda arguments: Invocation(kwargs={"arguments": dict(arguments)}),
            call=None,
            acall=run,
            options=SpeculableOptions(canonical=lambda arguments: arguments),
        )
