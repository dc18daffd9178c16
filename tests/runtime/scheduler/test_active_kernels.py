"""Algorithm 1 of Agent.xpu (§6.4): which kernels run side by side, by the sum of their bandwidth shares."""

from __future__ import annotations

from typing import Any

import pytest

from agentrt.priority import Priority
from agentrt.runtime.heg.cost_model import KernelCost
from agentrt.runtime.heg.kernel import BatchContext, BatchShape, Kernel, KernelKind, Role
from agentrt.runtime.scheduler.active_kernels import LaunchDecision, ScheduledKernel, decide_launch
from agentrt.runtime.scheduler.batch import Batch, Stage
from agentrt.runtime.scheduler.policy import Policy

REACTIVE, PROACTIVE = int(Priority.REACTIVE), int(Priority.PROACTIVE)
LAUNCH, WAIT, DEFER = LaunchDecision.LAUNCH, LaunchDecision.WAIT, LaunchDecision.DEFER
KERNEL = Kernel(0, KernelKind.LAYERS, range(1), range(1), (Role.DECODE,), True)


def cost(share: float) -> KernelCost:
    return KernelCost(seconds=0.01, bandwidth_share=share, bytes=0, watts=1.0, measured=False)


def beside(running: float, level: int) -> dict[Role, ScheduledKernel]:
    """The table of one kernel on the DECODE XPU, of a batch of ``level``."""
    batch = Batch([], Stage.DECODE, level, BatchContext(0, None, BatchShape(1, 1, 0, 1), (KERNEL,)))
    return {Role.DECODE: ScheduledKernel(batch, KERNEL, Role.DECODE, cost(running), 0.0, promoted=False)}


@pytest.mark.parametrize("share", [0.1, 0.79, 1.0])
def test_a_kernel_may_always_run_alone(share: float) -> None:
    assert decide_launch(Policy(), {}, cost(share), PROACTIVE, Role.DECODE, 0.0) is LAUNCH


@pytest.mark.parametrize(
    ("running", "share", "reactive", "backfill"),
    [
        (0.15, 0.15, LAUNCH, LAUNCH),
        (0.45, 0.15, LAUNCH, LAUNCH),  # medium pressure, one of them memory-intensive
        (0.79, 0.15, LAUNCH, LAUNCH),  # a decode that alone exceeds the high threshold bars no prefill
        (0.79, 0.01, LAUNCH, LAUNCH),
        (0.95, 0.15, WAIT, DEFER),  # more than there is
        (0.3, 0.3, LAUNCH, DEFER),  # two memory-intensive ones: selective pairing
        (0.45, 0.45, WAIT, DEFER),  # high pressure: one after the other
        (0.79, 0.21, WAIT, DEFER),
    ],
)
def test_sums_of_shares_decide(
    running: float, share: float, reactive: LaunchDecision, backfill: LaunchDecision
) -> None:
    decisions: list[Any] = [
        decide_launch(Policy(), beside(running, level), cost(share), own, Role.PREFILL, 0.0)
        for level, own in ((PROACTIVE, REACTIVE), (REACTIVE, PROACTIVE))
    ]
    assert decisions == [reactive, backfill]
