"""The active kernel table, and which kernels may run at the same time (Agent.xpu §6.1, §6.4 Algorithm 1)."""

from __future__ import annotations

import enum
from typing import NamedTuple, TypeAlias

from ..heg.kernel import BatchContext, Kernel, Role
from ..heg.profile import KernelCost
from .batch import Batch
from .policy import Policy


class LaunchDecision(enum.Enum):
    """Whether a kernel may start beside the active ones."""

    LAUNCH = "launch"
    WAIT = "wait"
    """Not until an active kernel has ended; until then no less urgent kernel may start either."""
    DEFER = "defer"
    """Not beside the active kernels; another kernel may be tried instead."""


class ScheduledKernel(NamedTuple):
    """A kernel that the scheduler has started: the next kernel of ``batch``, on the XPU of ``role``."""

    batch: Batch
    context: BatchContext
    """The one of the batch that the kernel is of."""
    kernel: Kernel
    role: Role
    cost: KernelCost
    started: float
    """Seconds on the platform's clock."""
    promoted: bool
    """Whether a sequence of ``batch`` was promoted when it started."""


ActiveKernels: TypeAlias = dict[Role, ScheduledKernel]
"""The kernel that each busy XPU executes."""


def decide_launch(
    policy: Policy, active: ActiveKernels, cost: KernelCost, level: int, role: Role, now: float
) -> LaunchDecision:
    """Algorithm 1: decide whether a kernel of ``cost``, of a batch of ``level``, may start on ``role``.

    What counts is the sum of the shares of the bandwidth that all kernels would need together. Where at
    most one of them is memory-intensive they run side by side as long as the memory has that much; two
    memory-intensive ones do so below the high tier, and backfill only below the low one. By the letter of
    Algorithm 1 a kernel that alone exceeds the high threshold could never start, and beside it nothing
    could: not even prefill kernels, which §6.4 wants overlapped.

    The duration constraint: a less urgent kernel must end before a more urgent batch, whose kernel runs
    on another XPU, needs the XPU of ``role``. Where that batch is as urgent, one XPU would wait for the
    other in any case, and the one that waits for less does (§6.5, idle time at barriers).
    """
    if not active:
        return LaunchDecision.LAUNCH
    shares = [cost.bandwidth_share, *(other.cost.bandwidth_share for other in active.values())]
    pressure = sum(shares)
    intensive = sum(share > policy.intensive_share for share in shares) > 1
    most_urgent = all(level <= other.batch.level for other in active.values())
    if pressure > (policy.high_pressure if intensive else 1.0):
        return LaunchDecision.WAIT if most_urgent else LaunchDecision.DEFER
    for other in active.values():
        following = other.context.kernels[other.kernel.index + 1 : other.kernel.index + 2]
        if other.batch.level > level or not following or following[0].roles[0] is not role:
            continue
        needed_s = other.started + other.cost.seconds - now
        equal = other.batch.level == level
        if needed_s < (min(cost.seconds, other.cost.seconds) / 2 if equal else cost.seconds):
            return LaunchDecision.DEFER
    if most_urgent:
        return LaunchDecision.LAUNCH
    if intensive and pressure >= policy.low_pressure:
        return LaunchDecision.DEFER
    return LaunchDecision.LAUNCH
