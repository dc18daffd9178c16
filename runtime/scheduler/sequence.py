"""The sequence of one request, and its life cycle."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from agentrt.priority import Priority

from ..kv.block_hashes import BlockHashes
from ..kv.swap.chunks import ChunkLoad
from .draft import NO_DRAFT, Draft
from .state_rows import StateRows

if TYPE_CHECKING:
    from ..kv.compression.density import AttentionMass

REACTIVE_LEVEL: Final = int(Priority.REACTIVE)
"""The most urgent priority level: reactive sequences, and all sequences where the policy ignores priority."""


class SequenceState(enum.Enum):
    """The life cycle of a sequence. Only the scheduler changes it::

                     admit                   all known tokens computed
        WAITING ──────────────▶ PREFILL ──────────────────────────────────────▶ DECODE
           ▲                    │  ▲ ▲                                           │
           │    chunk is awaited▼  │ └── kernel failed, batch dropped, extended ─┤
           │                  LOADING chunk loaded, damaged or withdrawn         │
           └───── evicted ──────┴─────────────────── evicted ────────────────────┤
                                                                                 ▼
        any state ── finish (end, length, cancel, deadline, shed, fault) ───▶ FINISHED

    A sequence is *extended* by given tokens, those of a tool's output. They are computed as a prompt is, in
    chunks; decoding continues behind them.

    PREFILL, LOADING and DECODE sequences are *running*: they hold KV blocks, whether or not they are in a
    batch. A LOADING sequence is in none: the next block of its prompt is being loaded (:class:`ChunkLoads`).
    A WAITING sequence holds none, except while the batch builder tries to admit it: then it has the blocks of
    its cached prefix, and releases them if the rest do not fit. A sequence whose batch is paused between two
    kernels keeps its state: being paused is a state of the :class:`Batch`, and nothing computed is lost. If a
    sequence finishes while it is in a batch, its blocks are released when the batch is completed or dropped.
    If it finishes with a tool call, the next turn is expected, and they are kept for it
    (:meth:`Scheduler.expect_return`).
    """

    WAITING = "waiting"
    PREFILL = "prefill"
    LOADING = "loading"
    DECODE = "decode"
    FINISHED = "finished"


@dataclass(slots=True, eq=False)
class Sequence:
    """The tokens of one request, its block table, and how many of its tokens have been computed.

    The sampler's side appends to ``tokens``; every field below ``tool_seconds`` belongs to the scheduler.
    """

    id: int
    """Arrival number, which breaks ties of the serving order: the lower one is served first."""
    priority: Priority
    tokens: list[int]
    """The prompt, then everything sampled or given so far."""
    block_hashes: BlockHashes | None = None
    """Hashes by which its app shares its blocks (prefix cache); None shares nothing."""
    arrived: float = 0.0
    deadline: float | None = None
    """When the request is ended if it is unfinished. ``arrived`` and ``deadline`` are seconds on the
    platform's clock."""
    request_id: str = ""
    """Names the request in traces and error messages."""
    app: str = ""
    """The app that shares its service with others, and under which its chunks are stored. Requests without a
    name are those of one app, whose chunks are not stored."""
    context_id: str = ""
    """The context under which they are stored; empty if the request names none."""
    tool_seconds: Mapping[str, float] = field(default_factory=dict)
    """How long its app expects tools to take that the answer may call, by their names."""

    prompt_tokens: int = field(init=False)
    state: SequenceState = SequenceState.WAITING
    computed_tokens: int = 0
    """How many of ``tokens`` have their keys and values in the arena."""
    charged_tokens: int = 0
    """How many of ``tokens`` its app has been charged for (:meth:`FairQueue.charge`)."""
    blocks: list[int] = field(default_factory=list)
    """The block table: block ``i`` holds tokens ``i * block_tokens …``."""
    states: StateRows | None = None
    """Its state rows in a hybrid model; None while it is WAITING, and in all other models."""
    cached_tokens: int | None = None
    """Prompt tokens that were not computed until it was first evicted: found in the prefix cache, or loaded.
    None until it is admitted."""
    evicted: bool = False
    """Whether it has lost its blocks since it was first admitted."""
    loads: dict[int, ChunkLoad] = field(default_factory=dict)
    """The loads that it waits for, by place in the block table, ascending."""
    calibrates: bool = False
    """Whether the logits behind all tokens of its prompt are wanted that are computed (sd.npu §3.3)."""
    draft: Draft = NO_DRAFT
    """Draft tokens of which the next decode verifies some behind ``tokens`` (sd.npu §2.2)."""
    alternatives: tuple[Draft, ...] = ()
    """Drafts beside this one, which it may verify as branches (:class:`~.batch.Branch`); without a draft they
    mean nothing."""
    given: list[range] = field(default_factory=list)
    """Where in ``tokens``, behind the prompt, tokens lie that were given and not sampled."""
    continues: bytes | None = None
    """The key of the return that it is (:class:`ExpectedReturn`); None if it was not expected."""
    level: int = 0
    """Priority level, the lowest the most urgent: that of ``priority``, or :data:`REACTIVE_LEVEL` for all
    where the policy ignores priority."""
    promoted: bool = False
    """Whether it has reached its promotion time (aging, §6.5): it is served first among its level."""
    attention: AttentionMass | None = None
    """The attention that its tokens are paid; None until it has been measured."""
    preemptions: int = 0
    """How often a batch of it was paused between two kernels for a more urgent one."""
    interruptions: int = 0
    """How often a kernel of it was interrupted since it was in a batch that was completed."""
    evictions: int = 0
    """How often it has lost its blocks to another sequence."""
    faults: int = 0
    """Kernels that have failed on it since its last sampled token."""

    def __post_init__(self) -> None:
        """Note the prompt's length."""
        self.prompt_tokens = len(self.tokens)

    @property
    def is_background(self) -> bool:
        """Whether reactive sequences go before it."""
        return self.level > REACTIVE_LEVEL

    @property
    def needs_prefill(self) -> bool:
        """Whether the next token to compute is of the prompt or given, so that it is computed in a chunk."""
        if self.computed_tokens < self.prompt_tokens:
            return True
        return bool(self.given) and any(self.computed_tokens in given for given in self.given)

    @property
    def prefill_end(self) -> int:
        """Where the prompt or the run of given tokens ends that the next token to compute lies in."""
        ends = [given.stop for given in self.given if self.computed_tokens in given]
        return ends[0] if ends else self.prompt_tokens

    @property
    def sampled_tokens(self) -> list[int]:
        """The tokens of the answer, without those that were given."""
        sampled = self.tokens[self.prompt_tokens :]
        for given in reversed(self.given):
            del sampled[given.start - self.prompt_tokens : given.stop - self.prompt_tokens]
        return sampled

    @property
    def order(self) -> tuple[int, bool, int]:
        """Sort key of running sequences of one app: level, promoted ones first, arrival.

        The last is evicted first. For several apps see :meth:`FairQueue.in_order`.
        """
        return (self.level, not self.promoted, self.id)


by_order = attrgetter("order")
