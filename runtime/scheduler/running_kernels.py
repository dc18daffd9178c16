"""What runs where now, and what may run beside it (Agent.xpu §6.3 constraints, §6.4 Algorithm 1)."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass

from ..heg.kernel import Kernel, KernelCost, Role
from .batch import Batch
from .policy import Policy


class Verdict(enum.Enum):
    """Whether a kernel may start now."""

    LAUNCH = "launch"
    WAIT = "wait"
    """Not before something that runs has ended, and nothing less urgent may slip in before it."""
    DEFER = "defer"
    """Not beside what runs now; another one may be tried instead."""


@dataclass(frozen=True, slots=True)
class RunningKernel:
    """A kernel that is running."""

    batch: Batch
    kernel: Kernel
    role: Role
    cost: KernelCost
    started: float


class RunningKernels:
    """The active kernel table and the memory pressure that its kernels make together."""

    def __init__(self, policy: Policy) -> None:
        """Nothing runs."""
        self._policy = policy
        self._by_role: dict[Role, RunningKernel] = {}

    def __len__(self) -> int:
        """How many XPUs are busy."""
        return len(self._by_role)

    def __contains__(self, role: Role) -> bool:
        """Whether the XPU of ``role`` is busy."""
        return role in self._by_role

    def __getitem__(self, role: Role) -> RunningKernel:
        """What the busy XPU of ``role`` runs."""
        return self._by_role[role]

    def __iter__(self) -> Iterator[RunningKernel]:
        """All kernels that are running."""
        return iter(tuple(self._by_role.values()))

    def start(self, active: RunningKernel) -> None:
        """Note that an XPU, idle so far, runs a kernel."""
        self._by_role[active.role] = active

    def end(self, role: Role) -> RunningKernel:
        """Note that it has ended, one way or another."""
        return self._by_role.pop(role)

    def judge(self, cost: KernelCost, rank: int, role: Role, now: float) -> Verdict:
        """Algorithm 1: may a kernel of ``cost`` for a pass of ``rank`` start on ``role`` beside what runs?

        The background is also held to the duration constraint: it must be off this XPU before the reactive
        kernel that runs elsewhere hands its pass over to it.
        """
        if not self._by_role:
            return Verdict.LAUNCH
        pressure = sum(active.cost.bandwidth_share for active in self) + cost.bandwidth_share
        urgent = all(rank <= active.batch.rank for active in self)
        if pressure > self._policy.high_pressure:
            return Verdict.WAIT if urgent else Verdict.DEFER
        if urgent:
            return Verdict.LAUNCH
        if cost.seconds > self._window(rank, role, now):
            return Verdict.DEFER
        if pressure < self._policy.low_pressure:
            return Verdict.LAUNCH
        # Selective pairing: two kernels that both live off the memory are kept apart in time.
        intense = self._policy.low_pressure / 2
        both = cost.bandwidth_share > intense and any(
            active.cost.bandwidth_share > intense for active in self
        )
        return Verdict.DEFER if both else Verdict.LAUNCH

    def _window(self, rank: int, role: Role, now: float) -> float:
        """Seconds until a more urgent pass that runs elsewhere wants the XPU of ``role``."""
        window = float("inf")
        for active in self:
            following = active.batch.context.kernels[active.kernel.index + 1 : active.kernel.index + 2]
            if active.batch.rank < rank and following and following[0].roles[0] is role:
                window = min(window, active.started + active.cost.seconds - now)
        return window
