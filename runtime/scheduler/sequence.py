"""One sequence on its way through the engine."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from agentrt.priority import Priority

from ..context.prefix import BlockHashes


class SequenceState(enum.Enum):
    """The life cycle of a sequence. The scheduler alone moves it along::

                     admit               all known tokens computed
        WAITING ──────────────▶ PREFILL ───────────────────────────▶ DECODE
           ▲                    │  ▲                                  │
           │                    │  └──── kernel failed, extended ─────┤
           └── blocks taken ────┴──────────── blocks taken ───────────┤
                                                                      ▼
        any state ── finish (end, length, cancel, deadline, shed, fault) ▶ FINISHED

    A sequence is *extended* by tokens that nobody sampled, those of a tool's output: they are computed as a
    prompt is, in chunks, and behind them decoding goes on.

    Only PREFILL and DECODE sequences hold KV blocks. One that is in a pass may wait between two kernels of
    it for as long as something more urgent runs: that is a state of the ``Batch``, not of the sequence,
    and nothing of it is lost. If a sequence finishes in a pass, its blocks are free when the pass is through
    or dropped; if it finishes with a call to a tool, they may be held for the next turn
    (:meth:`Scheduler.tool_wait`).
    """

    WAITING = "waiting"
    PREFILL = "prefill"
    DECODE = "decode"
    FINISHED = "finished"


@dataclass(slots=True, eq=False)
class Sequence:
    """The tokens of one request, and how far they have been computed.

    Whoever samples appends to ``tokens``; everything below ``deadline`` is the scheduler's.
    """

    id: int
    """Arrival number: among equals the lower one goes first."""
    priority: Priority
    tokens: list[int]
    """The prompt, then everything sampled so far."""
    keys: BlockHashes | None = None
    """By what its blocks are shared within its app; None shares nothing."""
    arrived: float = 0.0
    deadline: float | None = None
    """When it is given up. Both are times on the platform's clock."""

    prompt_tokens: int = field(init=False)
    state: SequenceState = SequenceState.WAITING
    computed: int = 0
    """How many of ``tokens`` have their keys and values in the arena."""
    blocks: list[int] = field(default_factory=list)
    """The block table: block ``i`` holds tokens ``i * block_tokens …``."""
    cached_tokens: int | None = None
    """Prompt tokens whose keys and values were in memory when it was first admitted."""
    draft: tuple[int, ...] = ()
    """What may come behind ``tokens``: its next decode computes it as well (sd.npu §2.2)."""
    given: list[range] = field(default_factory=list)
    """Where in ``tokens``, behind the prompt, lie those that were given and not sampled."""
    rank: int = 0
    """The class it competes in, lower first."""
    promoted: bool = False
    """Old enough to go before its equals (§6.5)."""
    faults: int = 0
    """Kernels that failed under it since it last got a token."""

    def __post_init__(self) -> None:
        """Note the prompt's length."""
        self.prompt_tokens = len(self.tokens)

    @property
    def prefills(self) -> bool:
        """Whether the next token to compute is a given one, so that it need not be computed by itself."""
        if self.computed < self.prompt_tokens:
            return True
        return bool(self.given) and any(self.computed in given for given in self.given)

    @property
    def prefill_end(self) -> int:
        """Where the given tokens end that the next one to compute lies in."""
        ends = [given.stop for given in self.given if self.computed in given]
        return ends[0] if ends else self.prompt_tokens

    @property
    def sampled(self) -> list[int]:
        """The tokens of the answer."""
        sampled = self.tokens[self.prompt_tokens :]
        for given in reversed(self.given):
            del sampled[given.start - self.prompt_tokens : given.stop - self.prompt_tokens]
        return sampled

    @property
    def order(self) -> tuple[int, bool, int]:
        """Whose blocks are taken last: by class, promoted ones first, then by arrival."""
        return (self.rank, not self.promoted, self.id)
