"""The protocols of XPUs and platforms: what the engine may expect of the machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from agentrt.errors import GraphLoadError

from ..heg.kernel import BatchContext, GraphLoad, Kernel, Role


class KernelDone(NamedTuple):
    """The end of a kernel. Times are seconds on the platform's clock (:meth:`Platform.now`)."""

    context: BatchContext
    kernel: Kernel
    role: Role
    started: float
    ended: float
    error: Exception | None = None
    """Why it failed, if it did; the residual stream is then undefined, and the batch must be restarted."""
    interrupted: bool = False
    """Whether it was interrupted (:meth:`XPU.interrupt`); it can be run again."""


@dataclass(frozen=True, slots=True)
class GraphLoaded:
    """The end of :meth:`XPU.load`. Times as in :class:`KernelDone`."""

    load: GraphLoad
    started: float
    ended: float
    error: GraphLoadError | None = None
    """Why it failed, if it did; the op group then keeps its former graph."""


class XPU(Protocol):
    """One processor that runs one kernel at a time."""

    @property
    def role(self) -> Role:
        """Its role on its platform."""

    def submit(self, kernel: Kernel, context: BatchContext, on_done: Callable[[KernelDone], None]) -> None:
        """Start ``kernel`` of ``context`` and return at once.

        ``kernel`` must be ``context.next_kernel`` and must list this XPU's role, and no other kernel may be
        running here: the scheduler orders kernels, so there is no queue. ``on_done`` is called exactly once,
        from any thread, possibly before ``submit`` returns; it must neither block nor raise. It is never
        called for a kernel that was running when :meth:`rebuild` or :meth:`close` was called. A kernel that
        cannot be started is reported by ``on_done`` as well.
        """

    def run(
        self,
        kernel: Kernel,
        context: BatchContext,
        timeout_s: float,
        on_lost: Callable[[], None] | None = None,
        *,
        interruptible: bool = False,
    ) -> KernelDone | None:
        """Run ``kernel`` as :meth:`submit` would and wait for it on the calling thread, without the GIL.

        An ``interruptible`` kernel is one segment, and ends early after :meth:`interrupt`.

        For platforms of one XPU, whose engine has nothing else to do meanwhile: a decode kernel of the nano
        model takes 0.3 ms, and a callback that wakes another thread adds a quarter to it.

        Returns:
            None if it has not ended after ``timeout_s``: it hangs, and the XPU needs :meth:`rebuild`.

        Raises:
            LostThread: the kernel blocked the calling thread beyond ``timeout_s`` and cancellation, and
                ``on_lost`` was called on another thread, which continues with :meth:`rebuild`. By the time
                this is raised the XPU no longer uses anything of this call.
        """

    def interrupt(self) -> None:
        """End an interruptible kernel that :meth:`run` runs, or runs next, as soon as the device can.

        Until :meth:`allow_kernels` no further one starts. Thread-safe; does not block. Other kernels go on.
        """

    def allow_kernels(self) -> None:
        """Let interruptible kernels start again. Call it on the thread that calls :meth:`run`."""

    def load(self, load: GraphLoad, on_done: Callable[[GraphLoaded], None]) -> None:
        """Start to load a graph while kernels run, and return at once.

        The op group has its former graph until the first kernel that is submitted, or the first
        :meth:`install_loaded`, after the end of the load. Until then it has both in memory. ``on_done`` is
        called once from any thread, and never after :meth:`close`; it must neither block nor raise.
        """

    def install_loaded(self) -> None:
        """Free the graphs that loaded ones replace, unless a kernel runs: then submitting the next does it.

        Call it on the thread that submits kernels.
        """

    def rebuild(self) -> None:
        """Abandon the running kernel, which does not return, and compile anew (Agent.xpu §6.5).

        Blocks for as long as compiling takes. The hung batch has lost its residual stream: release it and
        restart it; the keys and values it wrote are written again. All other batches stay valid.
        Every op group then has its graph for prompt chunks.

        Raises:
            EngineFailedError: the device is gone; the platform can no longer be used.
        """

    def close(self) -> None:
        """Free the device. Waits for a running kernel for a short time, but not for one that hangs."""


class Platform(Protocol):
    """The XPUs of a machine, one per role, over one KV arena in memory that all of them share."""

    @property
    def name(self) -> str:
        """``"cpu"``, ``"emulated"``, ``"intel-ultra"`` or ``"simulated:<profile>"``."""

    @property
    def xpus(self) -> Mapping[Role, XPU]:
        """The XPUs by role; :attr:`Role.DECODE` is always among them."""

    def now(self) -> float:
        """Seconds on the clock of this platform: ``time.perf_counter``, or virtual time."""

    def release(self, context: BatchContext) -> None:
        """Take back the buffers of a batch that is completed, dropped or failed.

        None of its kernels may be running. ``context.logits`` are invalid afterwards. Releasing a batch that
        was never submitted does nothing.
        """

    def reclaim(self, idle_s: float) -> None:
        """Free the scratch memory of each kernel that has not run for ``idle_s`` seconds (Agent.xpu §6.5).

        Its next run allocates it again. Others may be running, and paused batches stay valid. It is called by
        the thread that submits kernels.
        """

    def close(self) -> None:
        """Close every XPU."""
