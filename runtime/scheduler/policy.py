"""The rules a scheduler follows, as numbers: Agent.xpu's own, and the schemes it is compared with."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final


class Preemption(enum.Enum):
    """What an arriving reactive request may interrupt."""

    KERNEL = "kernel"
    """A background pass pauses after the kernel that is running and later goes on from there (§6.2)."""
    RESTART = "restart"
    """It pauses there as well, but loses what it has computed of its prompts (Fig. 4a)."""
    NONE = "none"
    """Nothing: every pass runs to its end (Fig. 4c)."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Thresholds and choices of one scheduling scheme. The defaults are Agent.xpu (§6)."""

    preemption: Preemption = Preemption.KERNEL

    by_priority: bool = True
    """Reactive before proactive; False serves everyone by arrival."""

    shortest_first: bool = True
    """Among proactive prompts, the one that will be complete first (§6.2); False serves them by arrival."""

    backfill: bool = True
    """Proactive sequences decode along in the batch of reactive ones (§6.3, intra-XPU)."""

    backfill_slowdown: float = 1.25
    """B_max is the batch whose decode step takes at most so many times that of one sequence (§6.3)."""

    background_share: float = 0.25
    """Of an XPU that reactive work keeps busy, background passes that mostly run on another one get this
    share of the time, a kernel at once: no NPU prefills without some attention on the GPU that decodes."""

    mixed_batches: bool = False
    """A pass holds prompt chunks and decodes at once, as continuous batching has it. Where False, they are
    passes of their own, so that a paused prompt holds up nobody's decoding (§5.2, disaggregation)."""

    background_mixes: bool = True
    """Proactive passes are mixed after all while nobody reactive is there, on a platform of one XPU: a decode
    among a prompt's tokens costs no more than one of them, and nobody minds that it pauses with the pass."""

    chunk_tokens: int | None = None
    """Tokens in one pass, whatever time its kernels take; None: as many as the quantum allows."""

    reactive_chunk_tokens: int = 512
    """Tokens of reactive prompts in one pass, as long as no kernel of it takes longer than
    :attr:`reactive_kernel_s`. Nothing is more urgent, so that the quantum need not bind them, and a longer
    pass reads the weights once for more tokens."""

    reactive_kernel_s: float = 0.1
    """The paper's bound on a prefill kernel (§6.2)."""

    time_share: bool = False
    """Reactive and proactive work take turns, kernel by kernel (Fig. 4b)."""

    promote_after_s: float = 10.0
    """Age at which a proactive request is *promoted* (§6.5), or half of the time to its deadline if that is
    sooner: it goes before its equals, and gets a kernel after every :attr:`promoted_stride` others."""

    promoted_stride: int = 7
    """How many kernels others run for each kernel of promoted work: it makes users wait a seventh longer."""

    reactive_decode_gap_s: float = 0.1
    """Longest that reactive prompts keep reactive decodes waiting."""

    proactive_decode_gap_s: float = 1.0
    """The same among proactive ones, where a fuller decode batch is worth more than an even pace."""

    low_pressure: float = 0.4
    """Below this share of the memory bandwidth kernels run beside each other freely (§6.4)."""

    high_pressure: float = 0.7
    """Above it they run one after the other, reactive first."""

    prefix_reuse: bool = True
    """Blocks that are still in memory are used again where an app's prompt begins with the same tokens."""

    tool_wait_s: float = 60.0
    """How long the blocks of a turn that waits for its tools are held for its next turn. Afterwards, and
    where 0, they are kept like those of any finished request: until the memory is needed."""

    max_waiting: int = 10_000
    """Requests that may wait for memory; beyond it the one that would be served last is shed."""

    hang_timeout_s: float = 10.0
    """A kernel that takes longer, and longer than 50 times its estimate, is given up."""

    max_faults: int = 3
    """Kernels that may fail under one sequence before it is given up."""


AGENT_XPU: Final = Policy()
"""Agent.xpu: kernel-level preemption, backfill, aging, pressure tiers."""

FCFS: Final = Policy(
    preemption=Preemption.NONE,
    by_priority=False,
    shortest_first=False,
    mixed_batches=True,
    chunk_tokens=256,
    promote_after_s=float("inf"),
    tool_wait_s=0.0,
)
"""Continuous batching with chunked prompts in order of arrival, as OpenVINO GenAI and others do it."""

PREEMPT_RESTART: Final = Policy(
    preemption=Preemption.RESTART,
    shortest_first=False,
    backfill=False,
    background_mixes=False,
    promote_after_s=float("inf"),
    prefix_reuse=False,
    tool_wait_s=0.0,
)
"""Fig. 4a: reactive work has the machine to itself at once, and background prompts begin again after it."""

TIME_SHARE: Final = Policy(
    time_share=True,
    shortest_first=False,
    backfill=False,
    background_mixes=False,
    promote_after_s=float("inf"),
    tool_wait_s=0.0,
)
"""Fig. 4b: both kinds share the processor in turns."""

ITERATION_LEVEL: Final = Policy(
    preemption=Preemption.NONE,
    by_priority=False,
    shortest_first=False,
    mixed_batches=True,
    chunk_tokens=2**20,
    promote_after_s=float("inf"),
    tool_wait_s=0.0,
)
"""Fig. 4c: continuous batching of whole prompts."""

POLICIES: Final = {
    "agent-xpu": AGENT_XPU,
    "fcfs": FCFS,
    "preempt-restart": PREEMPT_RESTART,
    "time-share": TIME_SHARE,
    "iteration-level": ITERATION_LEVEL,
}
"""All of them, by the names that :attr:`RuntimeConfig.policy` knows."""
