"""XPUs that are OpenVINO devices."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from queue import SimpleQueue
from typing import Final

import openvino as ov

from agentrt.errors import ConfigurationError, DeviceLostError, EngineFailedError

from ..heg.kernel import BatchContext, Kernel, KernelKind, Role
from ..model.openvino_core import openvino_core, openvino_message
from .buffers import BatchBuffers, BufferPool
from .compiled import BoundInference, CompiledKernels
from .protocol import KernelDone
from .watchdog import GRACE_S, Watchdog

_LONGEST_WAIT_S: Final = 1e6
"""What OpenVINO's clock can be asked to wait for."""

_QUICK_S: Final = 0.002
"""Pieces that last took less are run on the caller's thread."""

_Work = tuple[Kernel, BatchContext, Callable[[KernelDone], None]]


class OpenVINOXPU:
    """One OpenVINO device. Kernels run on the caller's thread (:meth:`run`) or on its own (:meth:`submit`).

    A thread of its own waits for each submitted kernel, rather than a callback of OpenVINO's: those are not
    called for inferences that fail.
    """

    def __init__(
        self,
        role: Role,
        pool: BufferPool,
        kernels: CompiledKernels,
        recompile: Callable[[], CompiledKernels],
    ) -> None:
        """``recompile`` builds ``kernels`` anew, for when the XPU has to start afresh."""
        self._role = role
        self._pool = pool
        self._recompile = recompile
        self.kernels = kernels
        self._caches: Mapping[str, ov.Tensor] = {}
        self._epoch = 0
        """Counts rebuilds: who finds it changed while waiting for a kernel was given up."""
        self._running: tuple[BoundInference, BatchBuffers] | None = None
        self._lock = threading.Lock()
        self._work: SimpleQueue[_Work | None] | None = None
        self._thread: threading.Thread | None = None
        self._watchdog = Watchdog()

    @property
    def role(self) -> Role:
        """See :attr:`XPU.role`."""
        return self._role

    def attach(self, caches: Mapping[str, ov.Tensor]) -> None:
        """Use these key and value tensors, by input name. To be called once, before the first pass."""
        self._caches = caches

    def submit(self, kernel: Kernel, context: BatchContext, on_done: Callable[[KernelDone], None]) -> None:
        """See :meth:`XPU.submit`."""
        self._load(context)
        if self._work is None:
            self._work = SimpleQueue()
            self._thread = threading.Thread(
                target=self._serve, args=(self._work,), name=f"agentrt-{self._role.value}", daemon=True
            )
            self._thread.start()
        self._work.put((kernel, context, on_done))

    def run(
        self,
        kernel: Kernel,
        context: BatchContext,
        timeout_s: float,
        on_lost: Callable[[], None] | None = None,
    ) -> KernelDone | None:
        """See :meth:`XPU.run`."""
        self._load(context)
        buffers: BatchBuffers = context.buffers

        def lost() -> None:
            buffers.abandoned = True
            self._running = None
            if on_lost is not None:
                on_lost()

        return self._execute(kernel, context, timeout_s, on_lost=lost)

    def rebuild(self) -> None:
        """See :meth:`XPU.rebuild`."""
        self._give_up()
        self._pool.clear()
        try:
            self.kernels = self._recompile()
        except (ConfigurationError, RuntimeError) as error:
            raise DeviceLostError(self.kernels.device, openvino_message(error)) from error

    def close(self) -> None:
        """See :meth:`XPU.close`."""
        self._give_up()
        self._watchdog.close()
        self._caches = {}

    def _load(self, context: BatchContext) -> None:
        if context.buffers is None:
            assert context.inputs is not None, "a pass without inputs can only be simulated"
            context.buffers = self._pool.take(context.inputs)

    def _execute(
        self,
        kernel: Kernel,
        context: BatchContext,
        timeout_s: float,
        *,
        on_lost: Callable[[], None] | None = None,
    ) -> KernelDone | None:
        """Run the pieces of ``kernel``, quick ones on this thread if it may be lost."""
        epoch = self._epoch
        buffers: BatchBuffers = context.buffers
        started = time.perf_counter()
        deadline = started + min(timeout_s, _LONGEST_WAIT_S)
        error: Exception | None = None
        try:
            for index in kernel.segments:
                inference = self._inference(buffers, kernel.kind, index)
                inference.bind(buffers)
                self._running = (inference, buffers)
                begun = time.perf_counter()
                if on_lost is not None and inference.seconds < _QUICK_S:
                    ended = self._watchdog.infer(inference.request, deadline, on_lost)
                else:
                    inference.request.start_async(share_inputs=True)
                    left_ms = max(0, int((deadline - begun) * 1e3)) + 1
                    ended = inference.request.wait_for(left_ms)
                if not ended or self._epoch != epoch:
                    return None
                inference.seconds = time.perf_counter() - begun
                context.logits = inference.finish(buffers)
        except RuntimeError as fault:
            error = self._explain(kernel, fault)
        if self._epoch == epoch:
            self._running = None
        return KernelDone(context, kernel, self._role, started, time.perf_counter(), error)

    def _inference(self, buffers: BatchBuffers, kind: KernelKind, index: int) -> BoundInference:
        """The inference of one piece that is bound to ``buffers``."""
        key = (self._role, kind, index)
        found: tuple[int, BoundInference] | None = buffers.requests.get(key)
        if found is None or found[0] != self._epoch:
            found = (self._epoch, self.kernels.bind(kind, index, self._caches))
            buffers.requests[key] = found
        return found[1]

    def _serve(self, work: SimpleQueue[_Work | None]) -> None:
        """Run what is submitted until told to stop or given up."""
        while (item := work.get()) is not None:
            kernel, context, on_done = item
            done = self._execute(kernel, context, _LONGEST_WAIT_S)
            with self._lock:
                if self._work is not work:
                    return
                if done is not None:
                    on_done(done)

    def _give_up(self) -> None:
        """Part with the running kernel, if there is one, and with the thread that waits for it."""
        with self._lock:
            self._epoch += 1
            running, self._running = self._running, None
            work, self._work = self._work, None
        if work is not None:
            work.put(None)
        if running is not None:
            inference, buffers = running
            # OpenVINO looks between two operations whether it should stop. One that does not get there may
            # still write to these buffers, and to the pass's KV blocks, if it ever wakes up.
            inference.request.cancel()
            try:
                stopped = inference.request.wait_for(int(GRACE_S * 1e3))
            except RuntimeError:  # what a cancelled inference ends with
                stopped = True
            if not stopped:
                buffers.abandoned = True
                threading.Thread(target=_outlive, args=running, name="agentrt-stuck", daemon=True).start()
        if self._thread is not None:
            self._thread.join(GRACE_S)
            self._thread = None

    def _explain(self, kernel: Kernel, fault: RuntimeError) -> DeviceLostError | EngineFailedError:
        device = self.kernels.device
        family = device.partition(".")[0]
        if not any(name.partition(".")[0] == family for name in openvino_core().available_devices):
            return DeviceLostError(device, openvino_message(fault))
        return EngineFailedError(
            f"kernel {kernel.index} ({kernel.kind.value}) failed on {device}: {openvino_message(fault)} "
            "Close this runtime and open it again; please report the cause."
        )


def _outlive(inference: BoundInference, buffers: BatchBuffers) -> None:
    """Keep an inference that does not stop, and all that it may write to, until it does.

    Without its last owner the memory would be freed under it, or, whichever comes first, its destructor would
    wait for it, and everybody with it.
    """
    with suppress(RuntimeError):  # what a cancelled inference ends with
        inference.request.wait()
    del inference, buffers
