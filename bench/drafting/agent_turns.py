"""Whole turns of recorded agents, prefill included: what drafting saves where prefill takes its share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..common.workloads import Conversation, traced
from .answering import AnsweringRuntime
from .prompt_sets import Prompt
from .sides import OURS, VANILLA, Ours, Side, Vanilla

_WORKLOAD: Final = "apibank"
FILE: Final = "apibank_traces.jsonl"


@dataclass(frozen=True, slots=True)
class AgentTurn:
    """One model request of an agent on both sides."""

    conversation: str
    vanilla_s: float
    ours_s: float
    decode_share: float
    """Share of vanilla's time behind the first token."""


def measure_agent_turns(
    runtime: AnsweringRuntime,
    folder: Path,
    conversations: int,
    max_tokens: int,
    progress: Callable[[str], None],
) -> list[AgentTurn]:
    """Have the model answer every turn of recorded conversations, the sides one after the other.

    Each side is an app of its own, with its own prefix cache and history: a turn computes what the turns
    before it have not. The conversation goes on as it was recorded, whatever the answer.
    """
    sides: tuple[Side, Side] = (Vanilla(), Ours())
    found: list[AgentTurn] = []
    for chosen in _spread(traced(folder)[_WORKLOAD], conversations):
        progress(f"an agent's turns, {chosen.id}")
        for turn in chosen.turns:
            prompt = Prompt(tuple(chosen.messages[: turn.history]), tuple(chosen.tools))
            order = sides if len(found) % 2 else sides[::-1]
            answers = {
                side.name: runtime.answer(
                    side, prompt, max_tokens, tool_choice="auto", app=f"agent, {side.name}"
                )
                for side in order
            }
            vanilla, ours = answers[VANILLA], answers[OURS]
            found.append(
                AgentTurn(chosen.id, vanilla.total_s, ours.total_s, vanilla.decode_s / vanilla.total_s)
            )
    return found


def _spread(conversations: list[Conversation], count: int) -> list[Conversation]:
    several = [each for each in conversations if len(each.turns) > 1]
    return several[:: max(1, len(several) // count)][:count]
