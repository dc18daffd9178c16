"""Runs the kernels that the scheduler has started: on the engine thread, or on threads of the XPUs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from ..heg.kernel import Role
from ..scheduler.active_kernels import ScheduledKernel
from ..xpu.protocol import XPU, KernelDone


class KernelRunner(Protocol):
    """Starts kernels. Used on the engine thread, but for :meth:`interrupt`."""

    def start(
        self,
        scheduled: ScheduledKernel,
        timeout_s: float,
        *,
        post: Callable[[KernelDone], None],
        on_lost: Callable[[], None],
    ) -> KernelDone | None:
        """Start a kernel, which hangs if it takes ``timeout_s``.

        ``on_lost`` is called on another thread if the kernel blocks this one for good.

        Returns:
            The end of the kernel, or None: ``post`` is called when it ends, on any thread, unless it hangs.
        """

    def interrupt(self) -> None:
        """End an interruptible kernel that runs, or runs next, as soon as the device can. Thread-safe."""

    def allow_kernels(self) -> None:
        """Let interruptible kernels start again."""


class InlineRunner:
    """Runs the kernels of a platform's only XPU on the engine thread, which has nothing else to do."""

    def __init__(self, xpu: XPU) -> None:
        """Take over ``xpu``."""
        self._xpu = xpu

    def start(
        self,
        scheduled: ScheduledKernel,
        timeout_s: float,
        *,
        post: Callable[[KernelDone], None],
        on_lost: Callable[[], None],
    ) -> KernelDone | None:
        """See :meth:`KernelRunner.start`."""
        batch = scheduled.batch
        return self._xpu.run(
            scheduled.kernel,
            batch.context,
            timeout_s,
            on_lost,
            interruptible=batch.interruptible and len(scheduled.kernel.segments) == 1,
        )

    def interrupt(self) -> None:
        """See :meth:`KernelRunner.interrupt`."""
        self._xpu.interrupt()

    def allow_kernels(self) -> None:
        """See :meth:`KernelRunner.allow_kernels`."""
        self._xpu.allow_kernels()


class ThreadedRunner:
    """Runs kernels of several XPUs at the same time, on their own threads. None can be interrupted."""

    def __init__(self, xpus: Mapping[Role, XPU]) -> None:
        """Take over ``xpus``."""
        self._xpus = xpus

    def start(
        self,
        scheduled: ScheduledKernel,
        timeout_s: float,
        *,
        post: Callable[[KernelDone], None],
        on_lost: Callable[[], None],
    ) -> None:
        """See :meth:`KernelRunner.start`."""
        self._xpus[scheduled.role].submit(scheduled.kernel, scheduled.batch.context, post)

    def interrupt(self) -> None:
        """See :meth:`KernelRunner.interrupt`."""

    def allow_kernels(self) -> None:
        """See :meth:`KernelRunner.allow_kernels`."""
