"""What the scheduler and the engine may expect of the machine: XPUs, platforms of them, and their costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from ..heg.kernel import BatchContext, Kernel, Role


@dataclass(frozen=True, slots=True)
class KernelDone:
    """A kernel has ended. Times are seconds on the platform's clock (:meth:`Platform.now`)."""

    context: BatchContext
    kernel: Kernel
    role: Role
    started: float
    ended: float
    error: Exception | None = None
    """Why it failed, if it did; the residual stream is then undefined, and the pass has to begin again."""


class XPU(Protocol):
    """One processor that runs one kernel at a time."""

    @property
    def role(self) -> Role:
        """What it is for on its platform."""

    def submit(self, kernel: Kernel, context: BatchContext, on_done: Callable[[KernelDone], None]) -> None:
        """Start ``kernel`` of ``context`` and return at once.

        ``kernel`` must be ``context.next_kernel``, must list this XPU's role, and nothing else may be running
        here: order is the scheduler's business, so there is no queue. ``on_done`` is called exactly once,
        from any thread, possibly before ``submit`` returns; it must neither block nor raise. It is never
        called for a kernel that was running when :meth:`rebuild` or :meth:`close` was called. A kernel that
        cannot even start is reported by ``on_done`` as well.
        """

    def run(
        self,
        kernel: Kernel,
        context: BatchContext,
        timeout_s: float,
        on_lost: Callable[[], None] | None = None,
    ) -> KernelDone | None:
        """Run ``kernel`` as :meth:`submit` would and wait for it on the calling thread, without the GIL.

        For platforms of one XPU, whose engine has nothing else to do meanwhile: a decode kernel of the nano
        model takes 0.3 ms, and a callback that wakes another thread adds a quarter to it.

        Returns:
            None if it has not ended after ``timeout_s``: it hangs, and only :meth:`rebuild` helps.

        Raises:
            LostThread: it did not even let go of the calling thread, and ``on_lost`` was called on another
                one, which has to go on with :meth:`rebuild` instead. What raises this late touches nothing.
        """

    def rebuild(self) -> None:
        """Give up on the running kernel, which does not return, and start afresh (Agent.xpu §6.5).

        Blocks for as long as compiling takes. The hung pass has lost its residual stream: release it and
        begin it again; what it wrote of keys and values it will write again. All other passes stay valid.

        Raises:
            DeviceLostError: the device is gone; the platform cannot go on.
        """

    def close(self) -> None:
        """Free the device. Waits for a running kernel a short while, never for one that hangs."""


class Platform(Protocol):
    """The XPUs of a machine, one a role, over one KV arena in memory that all of them share."""

    @property
    def name(self) -> str:
        """``"cpu"``, ``"emulated"``, ``"intel-ultra"`` or ``"simulated:<profile>"``."""

    @property
    def xpus(self) -> Mapping[Role, XPU]:
        """By role; :attr:`Role.DECODE` is always there."""

    def now(self) -> float:
        """Seconds on the clock of this platform: ``time.perf_counter``, or virtual time."""

    def release(self, context: BatchContext) -> None:
        """Take back the buffers of a pass that is through, cancelled or failed.

        None of its kernels may be running. ``context.logits`` are invalid from here on. Releasing a pass that
        was never submitted does nothing.
        """

    def reclaim(self) -> None:
        """Give back memory that kernels can do without while they do not run (Agent.xpu §6.5).

        None may be running; the next run of each takes it again.
        """

    def close(self) -> None:
        """Close every XPU."""
