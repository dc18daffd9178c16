"""One sequence on its way through the engine."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from agentrt.priority import Priority


class SequenceState(enum.Enum):
    """The life cycle of a sequence. The scheduler alone moves it along::

                     admit               all known tokens computed
        WAITING ──────────────▶ PREFILL ───────────────────────────▶ DECODE
           ▲                       │                                    │
           └──────── preempt ──────┴───────────── preempt ──────────────┤
                                                                        ▼
        any state ─────────── finish (end, length, cancel, fault) ▶ FINISHED

    Only PREFILL and DECODE sequences hold KV blocks.
    """

    WAITING = "waiting"
    PREFILL = "prefill"
    DECODE = "decode"
    FINISHED = "finished"


@dataclass(slots=True, eq=False)
class Sequence:
    """The tokens of one request, and how far they have been computed.

    The scheduler changes ``state``, ``computed`` and ``blocks``; whoever samples appends to ``tokens``.
    """

    id: int
    """Arrival number: among equal priorities the lower one goes first."""
    priority: Priority
    tokens: list[int]
    """The prompt, then everything sampled so far."""
    prompt_tokens: int = field(init=False)
    state: SequenceState = SequenceState.WAITING
    computed: int = 0
    """How many of ``tokens`` have their keys and values in the arena."""
    blocks: list[int] = field(default_factory=list)
    """The block table: block ``i`` holds tokens ``i * block_tokens …``."""
    order: tuple[int, int] = field(init=False)
    """Who goes first: priority, then arrival."""

    def __post_init__(self) -> None:
        """Note the prompt's length and the place in the order."""
        self.prompt_tokens = len(self.tokens)
        self.order = (int(self.priority), self.id)
