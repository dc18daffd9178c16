"""Scheduling policies as plain numbers: Agent.xpu's own, and the schemes it is compared with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Policy:
    """Thresholds and choices of one scheduling scheme. The defaults are Agent.xpu (§6)."""

    by_priority: bool = True
    """Reactive before proactive, also between two kernels of a proactive batch, which later resumes there
    (§6.2). False serves all requests by arrival, and every batch is executed to its end (Fig. 4c)."""

    restarts: bool = False
    """An arriving reactive request takes the blocks of all background prompts, which are computed again."""

    shortest_first: bool = True
    """Among proactive prompts, the shortest estimated time left first (§6.2); False goes by arrival."""

    backfill: bool = True
    """Proactive sequences join the decode batch of reactive ones (§6.3, intra-XPU)."""

    backfill_slowdown: float = 1.25
    """B_max is the largest batch whose decode step takes at most this many times what it takes without those
    that are backfilled (§6.3)."""

    background_share: float = 0.25
    """Share of an XPU's reactive kernel time that is granted to background batches which began on another
    XPU. Each reactive kernel earns them this share of its duration; one kernel of theirs goes before the next
    reactive one once its duration has been earned. Without it the NPU could prefill no background prompt
    while the GPU, which computes some of that prompt's attention, decodes for a reactive request."""

    mixed_batches: bool = False
    """A batch holds prompt chunks and decodes at once, as in continuous batching with chunked prefill. If
    False they are batches of their own, so that a paused prompt delays no decode (§5.2, disaggregation)."""

    mixes: bool = True
    """On a platform of one XPU, a new batch holds prompt chunks and decodes of its priority level at once
    where nothing more urgent is to pause or interrupt it: reactive ones, and proactive ones that cannot be
    interrupted while there is no reactive work. Beside a prompt chunk a decode costs as little as one more
    prompt token, because the weights are read for the chunk in any case."""

    chunk_tokens: int | None = None
    """Tokens in one batch, however long its kernels take. None: as many as keep each kernel within the
    quantum, the time that a background kernel may delay a reactive request
    (:attr:`RuntimeConfig.quantum_s`)."""

    reactive_chunk_tokens: int = 512
    """Tokens of reactive prompts in one batch, as long as none of its kernels takes longer than
    :attr:`reactive_kernel_s`, or all of them together than :attr:`reactive_pass_s`. The quantum does not
    limit them, because no request is more urgent, and a longer batch reads the weights once for more
    tokens."""

    reactive_kernel_s: float = 0.1
    """Longest kernel of a reactive prompt, in seconds: the paper's bound on prefill kernels (§6.2)."""

    reactive_pass_s: float = 0.6
    """Seconds of a batch of reactive prompts whose kernels may take longer than that: those of a model in few
    segments. Another reactive request waits for a batch in progress in any case."""

    calm_s: float = 0.5
    """Kernels of background prompts may be so long that they have to be interrupted if reactive work comes
    less often than this, in seconds, or none has come for as long. Else more would be lost than gained: an
    interruption loses half a kernel, and short kernels are a third slower."""

    time_share: bool = False
    """Reactive and proactive work alternate kernel by kernel (Fig. 4b)."""

    promote_after_s: float = 10.0
    """For aging (§6.5): age in seconds at which a proactive request is *promoted*, or half the time to its
    deadline if that is sooner. It then goes before all other proactive requests, is evicted after them, and
    promoted work gets one kernel after every :attr:`promoted_stride` others, reactive ones included."""

    promoted_stride: int = 7
    """For aging: other kernels per kernel of promoted work. At 7, reactive requests take 1/7 longer while
    there is promoted work."""

    reactive_decode_gap_s: float = 0.1
    """Seconds that reactive prompts may delay reactive decodes."""

    proactive_decode_gap_s: float = 1.0
    """Seconds that proactive prompts may delay proactive decodes. It is longer than the reactive gap, because
    for proactive requests a fuller decode batch is worth more than an even pace."""

    intensive_share: float = 0.2
    """A kernel that needs more than this share of the memory bandwidth is memory-intensive (§6.4). Kernels of
    which at most one is run side by side as long as the bandwidth suffices for all."""

    low_pressure: float = 0.4
    """Memory-intensive kernels that together need less than this share of the bandwidth run side by side;
    from here to :attr:`high_pressure` only if none of them is backfill (§6.4, selective pairing)."""

    high_pressure: float = 0.7
    """Memory-intensive kernels that together would need more than this share run one after the other,
    reactive ones first."""

    share_apps: bool = True
    """Within a priority level, the app that was served least goes first; False serves all apps by arrival."""

    sampled_token_weight: float = 2.0
    """What a sampled token counts in the service of an app; a token of a prompt counts 1 (w_q and w_p of
    Sheng et al. 2024)."""

    turn_tokens: int = 1024
    """Service of one turn, by weight. By so much an app has to be ahead of another before a sequence of it
    loses KV blocks to it, or all of its places in the batch."""

    sharing_apps: int = 16
    """Apps that take turns at once: others run nothing until one of these has had its turn. More would
    hold memory for longer, and end later on the average."""

    prefix_reuse: bool = True
    """Prefix cache: blocks in memory are reused where a prompt of the same app begins with their tokens."""

    tool_wait_s: float = 60.0
    """Longest time for which less urgent requests wait rather than take blocks of a turn that has ended in
    tool calls. If 0, no next turn is expected, and cached blocks give way least recently used first."""

    max_waiting: int = 10_000
    """Requests that may wait for free KV blocks; beyond it the one that would be served last is shed."""

    hang_timeout_s: float = 10.0
    """A kernel that takes longer than this, and longer than 50 times its estimate, counts as hung."""

    max_faults: int = 3
    """Kernels that may fail on one sequence before it is ended."""


AGENT_XPU: Final = Policy()
"""Agent.xpu: kernel-level preemption, backfill, aging, pressure tiers."""


def _baseline(**choices: Any) -> Policy:
    """A scheme to compare with: without aging, shares of apps, estimates of time, returns from tools."""
    return Policy(
        shortest_first=False, share_apps=False, promote_after_s=float("inf"), tool_wait_s=0.0, **choices
    )


POLICIES: Final = {
    "agent-xpu": AGENT_XPU,
    # Continuous batching with chunked prefill in order of arrival, as in OpenVINO GenAI and other engines.
    "fcfs": _baseline(by_priority=False, mixed_batches=True, chunk_tokens=256),
    # Order of arrival with Agent.xpu's chunks, placement and pressure tiers: prompts and decodes are batches
    # of their own, on two XPUs where there are two. There it differs from Agent.xpu only in priorities.
    "fcfs-disaggregated": _baseline(by_priority=False, mixes=False),
    # Fig. 4a: reactive work takes the whole machine at once; background prompts start again after it.
    "preempt-restart": _baseline(restarts=True, backfill=False, mixes=False, prefix_reuse=False),
    # Fig. 4b: reactive and proactive work share the processor in time slices.
    "time-share": _baseline(time_share=True, backfill=False, mixes=False),
    # Fig. 4c: continuous batching of whole prompts.
    "iteration-level": _baseline(by_priority=False, mixed_batches=True, chunk_tokens=2**20),
}
"""All policies, by the names that :attr:`RuntimeConfig.policy` accepts."""
