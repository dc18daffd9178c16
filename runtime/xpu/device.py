"""An OpenVINO device as an XPU."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from queue import SimpleQueue
from typing import Final

import openvino as ov

from agentrt.errors import ConfigurationError, EngineFailedError

from ..heg.kernel import BatchContext, BatchInputs, GraphLoad, Kernel, KernelKind, Role
from ..model.openvino_core import openvino_core, openvino_message
from ..model.paged import CACHES
from .buffers import BatchBuffers, BufferPool
from .compiled import BoundInference, CompiledKernels, InferenceShapes
from .graph_loader import GraphLoader
from .machine import release_free_memory
from .protocol import GraphLoaded, KernelDone
from .watchdog import GRACE_S, Interrupt, Interrupted, Watchdog, wait_until

_LONGEST_WAIT_S: Final = 1e6
"""The longest time that OpenVINO can wait for an inference."""

_QUICK_S: Final = 0.002
"""Pieces whose last run took less are run on the caller's thread."""

_Work = tuple[Kernel, BatchContext, Callable[[KernelDone], None]]


class OpenVINOXPU:
    """One OpenVINO device. An :class:`XPU` whose kernels run on the caller's thread or on its own.

    :meth:`run` uses the caller's thread. :meth:`submit` uses a thread that waits for each kernel, rather than
    a callback of OpenVINO's: those are not called for inferences that fail.
    """

    def __init__(
        self,
        role: Role,
        pool: BufferPool,
        kernels: CompiledKernels,
        recompile: Callable[[], CompiledKernels],
        loader: GraphLoader | None = None,
    ) -> None:
        """``recompile`` compiles ``kernels`` anew for :meth:`rebuild`; ``loader`` loads graphs of them."""
        self.role: Final = role
        """See :attr:`XPU.role`."""
        self._pool = pool
        self._recompile = recompile
        self._loader = loader
        self.kernels = kernels
        self.caches: Mapping[str, ov.Tensor] = {}
        """The attached caches; empty once closed."""
        self._submitted: Kernel | None = None
        """The kernel that :meth:`submit` has started and that has not ended."""
        self._epoch = 0
        """Counts abandoned kernels: a thread that finds it changed while it waited has been abandoned."""
        self._running: tuple[BoundInference, BatchBuffers] | None = None
        self._lock = threading.Lock()
        self._work: SimpleQueue[_Work | None] | None = None
        self._thread: threading.Thread | None = None
        self._watchdog = Watchdog()
        self._interrupt = Interrupt()

    def attach(self, caches: Mapping[str, ov.Tensor]) -> None:
        """Use ``caches``, key and value tensors by input name. Call it once, before the first batch."""
        self.caches = caches

    def submit(self, kernel: Kernel, context: BatchContext, on_done: Callable[[KernelDone], None]) -> None:
        """See :meth:`XPU.submit`."""
        self._prepare(context)
        if self._work is None:
            self._work = SimpleQueue()
            self._thread = threading.Thread(
                target=self._run_submitted,
                args=(self._work,),
                name=f"agentrt-{self.role.value}",
                daemon=True,
            )
            self._thread.start()
        self._submitted = kernel
        self._work.put((kernel, context, on_done))

    def run(
        self,
        kernel: Kernel,
        context: BatchContext,
        timeout_s: float,
        on_lost: Callable[[], None] | None = None,
        *,
        interruptible: bool = False,
    ) -> KernelDone | None:
        """See :meth:`XPU.run`."""
        self._prepare(context)
        buffers: BatchBuffers = context.buffers

        def lost() -> None:
            buffers.abandoned = True
            self._running = None
            if on_lost is not None:
                on_lost()

        return self._execute(kernel, context, timeout_s, on_lost=lost, interruptible=interruptible)

    def interrupt(self) -> None:
        """See :meth:`XPU.interrupt`. OpenVINO heeds it between two operations."""
        self._interrupt.request()

    def allow_kernels(self) -> None:
        """See :meth:`XPU.allow_kernels`."""
        self._interrupt.clear()

    def load(self, load: GraphLoad, on_done: Callable[[GraphLoaded], None]) -> None:
        """See :meth:`XPU.load`."""
        assert self._loader is not None, "this XPU has one graph for each op group"
        self._loader.load(load, on_done)

    def install_loaded(self) -> None:
        """See :meth:`XPU.install_loaded`."""
        if self._loader is None or self._submitted is not None:
            return
        for group, compiled in self._loader.take_loaded():
            self.kernels.replace(KernelKind.TOKENS, group, compiled)
            self._pool.forget((self.role, KernelKind.TOKENS, group))

    def reclaim(self, idle_s: float) -> None:
        """Free the scratch memory of kernels that have not run for ``idle_s`` seconds.

        Call it on the thread that calls :meth:`submit` and :meth:`run`.
        """
        if self.kernels.release_memory(time.perf_counter() - idle_s, self._submitted):
            release_free_memory()

    def rebuild(self) -> None:
        """See :meth:`XPU.rebuild`."""
        self._abandon_running()
        self._pool.clear()
        try:
            self.kernels = self._recompile()
        except (ConfigurationError, RuntimeError) as error:
            raise _device_lost(self.kernels.device, error) from error

    def close(self) -> None:
        """See :meth:`XPU.close`."""
        self._abandon_running()
        self._watchdog.close()
        if self._loader is not None:
            self._loader.close()
        self.caches = {}
        self.kernels.close()

    def _prepare(self, context: BatchContext) -> None:
        if self._loader is not None:
            self.install_loaded()
        if context.buffers is None:
            assert context.inputs is not None, "a batch without inputs can only be simulated"
            context.buffers = self._pool.take(context.inputs)
            for source, target in context.inputs.block_copies:
                for name, cache in self.caches.items():
                    if name.startswith(CACHES):
                        cache.data[target] = cache.data[source]

    def _execute(
        self,
        kernel: Kernel,
        context: BatchContext,
        timeout_s: float,
        *,
        on_lost: Callable[[], None] | None = None,
        interruptible: bool = False,
    ) -> KernelDone | None:
        """Run ``kernel``, its quick pieces on this thread if ``on_lost`` is given. None if it hangs."""
        epoch = self._epoch
        buffers: BatchBuffers = context.buffers
        started = time.perf_counter()
        deadline = started + min(timeout_s, _LONGEST_WAIT_S)
        error: Exception | None = None
        interrupted = False
        try:
            for index in kernel.segments:
                inference = self._inference(buffers, kernel.kind, index)
                if not inference.shapes.allow(inference.shape(buffers)):
                    self._settle(kernel.kind, index, inference.shapes)
                for begin in inference.runs(buffers):
                    inference.bind(buffers, begin)
                    self._running = (inference, buffers)
                    if interruptible:
                        ended = self._interrupt.infer(inference.request, deadline)
                    else:
                        ended = self._infer(inference, deadline, on_lost)
                    if not ended or self._epoch != epoch:
                        return None
                inference.shapes.end(inference.shape(buffers))
                context.logits = inference.finish(buffers)
                if inference.scored:
                    context.scores += inference.scores()
        except Interrupted as interruption:
            interrupted = True
            if interruption.started:
                inference.shapes.interrupt(inference.shape(buffers))
        except RuntimeError as fault:
            error = self._error_of(kernel, fault)
            if interruptible and self._running is not None:  # others may have states, and cannot be settled
                running, _ = self._running
                running.shapes.interrupt(running.shape(buffers))
        if self._epoch == epoch:
            self._running = None
        at = time.perf_counter()
        self.kernels.note_run(kernel.kind, kernel.segments, at)
        return KernelDone(context, kernel, self.role, started, at, error, interrupted)

    def _settle(self, kind: KernelKind, index: int, shapes: InferenceShapes) -> None:
        """Run a piece in another shape than those of an interruption (see :class:`InferenceShapes`)."""
        tokens, *rows = shapes.unlike()
        buffers = self._pool.take(
            BatchInputs(
                token_ids=[0] * tokens,
                position_ids=list(range(tokens)),
                past_lens=[0],
                subsequence_begins=[0, tokens],
                block_tables=[[0]],
                max_context_len=tokens,
                sampled_rows=[0] * sum(rows),
            )
        )
        # Of one block, which is nobody's.
        caches = {
            name: ov.Tensor(cache.element_type, ov.Shape([1, *cache.shape[1:]]))
            for name, cache in self.caches.items()
        }
        inference = self.kernels.bind(kind, index, caches)
        inference.bind(buffers)
        inference.request.infer(share_inputs=True)
        inference.shapes.end(inference.shape(buffers))
        self._pool.give_back(buffers)

    def _infer(self, inference: BoundInference, deadline: float, on_lost: Callable[[], None] | None) -> bool:
        """Run one inference; return whether it has ended at ``deadline``. ``on_lost`` as in `_execute`."""
        begun = time.perf_counter()
        if on_lost is not None and inference.seconds < _QUICK_S:
            ended = self._watchdog.infer(inference.request, deadline, on_lost)
        else:
            inference.request.start_async(share_inputs=True)
            ended = wait_until(inference.request, deadline)
        inference.seconds = time.perf_counter() - begun
        return bool(ended)

    def _inference(self, buffers: BatchBuffers, kind: KernelKind, index: int) -> BoundInference:
        """Return the inference of one piece that is bound to ``buffers``."""
        key = (self.role, kind, index)
        found: tuple[int, BoundInference] | None = buffers.inferences.get(key)
        if found is None or found[0] != self._epoch:
            found = (self._epoch, self.kernels.bind(kind, index, self.caches))
            buffers.inferences[key] = found
        return found[1]

    def _run_submitted(self, work: SimpleQueue[_Work | None]) -> None:
        """Run submitted kernels until ``work`` ends with None or is replaced."""
        while (item := work.get()) is not None:
            kernel, context, on_done = item
            done = self._execute(kernel, context, _LONGEST_WAIT_S)
            with self._lock:
                if self._work is not work:
                    return
                if done is not None:
                    self._submitted = None
                    on_done(done)

    def _abandon_running(self) -> None:
        """Abandon the running kernel, if there is one, and the thread that waits for it."""
        with self._lock:
            self._epoch += 1
            running, self._running = self._running, None
            work, self._work = self._work, None
            self._submitted = None
        if work is not None:
            work.put(None)
        if running is not None:
            inference, buffers = running
            # OpenVINO heeds a cancellation between two operations. A kernel that does not get there may
            # still write to these buffers, and to the batch's KV blocks, at any later time.
            inference.request.cancel()
            try:
                stopped = inference.request.wait_for(int(GRACE_S * 1e3))
            except RuntimeError:  # a cancelled inference ends with it
                stopped = True
            if not stopped:
                buffers.abandoned = True
                threading.Thread(target=_keep_alive, args=running, name="agentrt-stuck", daemon=True).start()
        if self._thread is not None:
            self._thread.join(GRACE_S)
            self._thread = None

    def _error_of(self, kernel: Kernel, fault: RuntimeError) -> EngineFailedError:
        device = self.kernels.device
        family = device.partition(".")[0]
        if not any(name.partition(".")[0] == family for name in openvino_core().available_devices):
            return _device_lost(device, fault)
        return EngineFailedError(
            f"kernel {kernel.index} ({kernel.kind.value}) failed on {device}: {openvino_message(fault)} "
            "Close this runtime and open it again; please report the cause."
        )


def _device_lost(device: str, cause: Exception) -> EngineFailedError:
    return EngineFailedError(
        f"{device} is lost: {openvino_message(cause)} Close this runtime and open it again, "
        'with platform="cpu" if the device does not come back.'
    )


def _keep_alive(inference: BoundInference, buffers: BatchBuffers) -> None:
    """Keep an inference that does not stop, and all memory that it may write to, until it stops.

    Without an owner its memory would be freed while it writes, or its destructor would block this process.
    """
    with suppress(RuntimeError):  # a cancelled inference ends with it
        inference.request.wait()
    del inference, buffers
