"""The engine thread: drives the scheduler and the XPUs in real time."""

from __future__ import annotations

import dataclasses
import functools
import logging
import threading
from collections import abc
from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Any, Final, TypeAlias, Unpack

from agentrt.errors import AgentRTError, EngineFailedError, RuntimeClosedError
from agentrt.priority import Priority

from ..heg.kernel import BatchContext, Role
from ..heg.refinement import ProfileRefiner
from ..kv.compression.density import AttentionMass
from ..kv.swap.chunks import ChunkLoad
from ..kv.swap.swapper import Swapper
from ..request.request import Request
from ..scheduler.batch import ScheduledChunk, Stage, inputs_of
from ..scheduler.launch_decision import ScheduledKernel
from ..scheduler.scheduler import Scheduler
from ..xpu.protocol import GraphLoaded, KernelDone, Platform
from ..xpu.watchdog import LostThread
from .cost_refinement import CostRefinement
from .engine_group import EngineGroup, EngineGroupMember
from .engine_request import EngineRequest, EngineRequestBuilder, SubmitOptions
from .engine_status import EngineStatistics, EngineStatus
from .output_processor import OutputProcessor
from .trace import Trace

_RECLAIM_AFTER_S: Final = 30.0
"""Idle seconds of a kernel before its memory is reclaimed, and seconds between two reclamations while others
run. One takes milliseconds, which should not delay the next request."""

_log: Final = logging.getLogger(__name__)

_Command: TypeAlias = tuple[Callable[[Any], None], Any]


class Engine:
    """Runs requests on one platform until closed. Only methods that say so may be called on other threads.

    Commands take effect when the running kernel has ended. A reactive request interrupts one of a background
    prompt, where the platform has one XPU.
    """

    def __init__(
        self,
        platform: Platform,
        scheduler: Scheduler,
        builder: EngineRequestBuilder,
        group: EngineGroup | None,
        refiner: ProfileRefiner,
        swapper: Swapper | None,
    ) -> None:
        """Take over ``platform`` and ``scheduler``, and start the thread.

        ``builder`` builds the requests that are submitted. ``group`` has the engines that share this machine.
        ``refiner`` refines the profile by the kernels that run. ``swapper`` is that of the scheduler; close
        it after the engine.
        """
        self._platform = platform
        self._scheduler = scheduler
        self._builder = builder
        self._commands: SimpleQueue[_Command | None] = SimpleQueue()
        self._outputs = OutputProcessor(scheduler, platform.now)
        self._lock = threading.Lock()
        self._shutdown: RuntimeClosedError | EngineFailedError | None = None
        self._kernels = self._rebuilds = self._graph_loads = 0
        self._progress = platform.now()
        self._reclaimed = False
        self._next_reclaim = self._progress + _RECLAIM_AFTER_S
        self._stopped = threading.Event()
        self._inline = platform.xpus[Role.DECODE] if len(platform.xpus) == 1 else None
        """The only XPU. Its kernels run on the engine thread, which has nothing else to do."""
        self._member = EngineGroupMember(
            group or EngineGroup(), self._wake, self._interrupt, scheduler.policy.promoted_stride
        )
        self._costs = CostRefinement(refiner, scheduler, self._member)
        if swapper is not None:
            swapper.start(
                functools.partial(self._post, self._chunks_loaded),
                functools.partial(self._post, scheduler.swap_outs.release),
            )
        self._start_thread()

    def submit(self, request: Request, **options: Unpack[SubmitOptions]) -> EngineRequest:
        """Queue ``request`` and return at once; its ``output`` is set when it has ended. Thread-safe.

        Raises:
            InvalidRequestError: the prompt is empty.
            RuntimeClosedError, EngineFailedError: the engine no longer runs.
        """
        submitted = self._builder.build(request, **options)
        with self._lock:
            if self._shutdown is not None:
                raise self._shutdown_error()
            self._commands.put((self._outputs.add, submitted))
        if request.priority is Priority.REACTIVE:
            self._interrupt()  # it is known to the engine thread already
        return submitted

    def cancel(self, request: EngineRequest) -> None:
        """End ``request`` in any state; its KV blocks are free after the running kernel. Thread-safe."""
        if not request.output.done():
            self._commands.put((self._outputs.cancel, request))

    def expect_return(self, request: EngineRequest, calls: abc.Collection[str]) -> None:
        """Expect the next turn of a finished ``request``, which has called these tools. Thread-safe."""
        self._commands.put((self._outputs.expect_return, (request, calls)))

    def close(self) -> None:
        """Stop and free the XPUs; requests that have not ended get :class:`RuntimeClosedError`. Thread-safe.

        May be called again.
        """
        self._refuse_requests(RuntimeClosedError())
        self._commands.put(None)
        if threading.current_thread() is not self._thread:
            self._stopped.wait()  # before the join: a lost thread is replaced by another one
            self._thread.join()

    def fail(self, cause: Exception) -> None:
        """Stop because of ``cause``: all requests get :class:`EngineFailedError`. Thread-safe.

        The message of ``cause`` says what to do next.
        """
        failure = EngineFailedError(f"the engine was stopped: {cause}")
        failure.__cause__ = cause
        self._refuse_requests(failure)
        self._commands.put(None)

    def add_trace(self, trace: Trace) -> None:
        """Record in ``trace`` what happens from now on. Thread-safe."""
        with self._lock:
            self._outputs.traces += (trace,)

    def remove_trace(self, trace: Trace) -> None:
        """Record nothing more in ``trace``. Thread-safe."""
        with self._lock:
            self._outputs.traces = tuple(each for each in self._outputs.traces if each is not trace)

    def status(self, most: int) -> Future[EngineStatus]:
        """Ask for the state of at most ``most`` requests and of the KV blocks. Thread-safe.

        The engine thread answers between two kernels. It never does if it ends before.
        """
        answer: Future[EngineStatus] = Future()

        def look(_: None) -> None:
            if answer.set_running_or_notify_cancel():
                answer.set_result(self._outputs.status(most))

        self._commands.put((look, None))
        return answer

    @property
    def refuses_requests(self) -> bool:
        """Whether the engine was closed or has failed. Callable from any thread at any time."""
        return self._shutdown is not None

    def statistics(self) -> EngineStatistics:
        """Return the counters. Cheap, and callable from any thread at any time."""
        pauses = self._member.paused and not self._member.reactive
        busy = not pauses and (bool(self._outputs) or not self._commands.empty())
        return EngineStatistics(
            **dataclasses.asdict(self._scheduler.statistics()),
            **self._outputs.counters,
            kernels=self._kernels,
            rebuilds=self._rebuilds,
            graph_loads=self._graph_loads,
            seconds_since_progress=self._platform.now() - self._progress if busy else 0.0,
        )

    def _start_thread(self, hung: Role | None = None) -> None:
        """Start the engine thread, or its successor if it is lost in a hung kernel on ``hung``."""
        self._thread = threading.Thread(target=self._run, args=(hung,), name="agentrt-engine", daemon=True)
        self._thread.start()

    def _run(self, hung: Role | None) -> None:
        try:
            busy = hung is not None and self._shutdown is None
            if hung is not None and busy:
                self._kernel_hung(hung)
            while self._run_commands(wait=not busy):
                busy = self._step()
        except LostThread:
            return  # another engine thread has taken over
        except BaseException as fault:  # noqa: BLE001 - it becomes the error of every request
            failure = EngineFailedError(
                f"the engine thread stopped on {type(fault).__name__}: {fault}. "
                "Close this runtime and open it again; please report the cause below."
            )
            failure.__cause__ = fault
            self._refuse_requests(failure)
        try:
            self._stop()
        finally:
            self._stopped.set()

    def _stop(self) -> None:
        """Close the platform and end every request with the reason of the shutdown."""
        self._member.leave()
        self._platform.close()
        self._costs.refine()
        for role in self._scheduler.busy_roles:
            self._scheduler.fail_kernel(role, hung=False)
        not_added: list[EngineRequest] = []
        while not self._commands.empty():
            command = self._commands.get()
            if command is not None and isinstance(request := command[1], EngineRequest):
                not_added.append(request)
        self._outputs.fail_all(self._shutdown_error, not_added)
        self._release_dropped()

    def _refuse_requests(self, reason: RuntimeClosedError | EngineFailedError) -> None:
        """Refuse requests from now on; the first reason stays. Thread-safe."""
        with self._lock:
            self._shutdown = self._shutdown or reason

    def _shutdown_error(self) -> RuntimeClosedError | EngineFailedError:
        """Return a copy of the reason of the shutdown: each request raises an error of its own."""
        assert self._shutdown is not None
        error = type(self._shutdown)(*self._shutdown.args)
        error.__cause__ = self._shutdown.__cause__
        return error

    def _run_commands(self, *, wait: bool) -> bool:
        """Run the queued commands, or ``wait`` for one until a timeout; False when closed."""
        commands = self._commands
        if self._inline is not None:
            self._inline.allow_kernels()  # before the commands of those who interrupt
        while wait or not commands.empty():
            try:
                command = commands.get(timeout=self._wait_timeout())
            except Empty:
                if not self._outputs and not self._reclaimed and not self._scheduler.busy_roles:
                    self._tidy_up()
                return True
            if command is None:
                return False
            if not self._outputs:
                self._progress = self._platform.now()
            run, argument = command
            run(argument)
            wait = False
        return True

    def _wait_timeout(self) -> float | None:
        """Return the seconds until the engine has work without a command; None for no limit."""
        if not self._outputs:
            return None if self._reclaimed else _RECLAIM_AFTER_S
        due = self._scheduler.next_timeout()
        return None if due == float("inf") else max(0.0, due - self._platform.now())

    def _tidy_up(self) -> None:
        """Give back memory that kernels allocate again when they run (§6.5), and refine their costs.

        The engine is idle.
        """
        self._reclaimed = True
        self._scheduler.check_integrity()
        self._platform.reclaim(0.0)
        self._costs.refine()

    def _step(self) -> bool:
        """Start the kernels that the scheduler selects; return whether the next step may follow at once."""
        now = self._platform.now()
        self._outputs.expire(now)
        scheduled = self._scheduler.schedule(
            now,
            background=self._background_may_run(now),
            reactive_elsewhere=not self._member.alone and self._member.others_reactive,
        )
        self._release_dropped()
        ended = [self._start_kernel(kernel, now) for kernel in scheduled]
        if (load := self._scheduler.next_graph_load()) is not None:
            post = functools.partial(self._post, self._graph_loaded)
            self._platform.xpus[Role.PREFILL].load(load, post)
        if ended and all(ended):
            return True  # no kernel runs that could hang
        hung = self._scheduler.hung_kernels(self._platform.now())
        for role in hung:
            self._kernel_hung(role)
        return bool(hung) or any(ended)

    def _background_may_run(self, now: float) -> bool:
        """Whether no other engine of the group has reactive work, for which background work pauses."""
        member = self._member
        if member.alone and not member.paused:
            return True
        paused = member.paused
        may_run = member.update(
            reactive=self._scheduler.queues.has_reactive_work, promoted=bool(self._scheduler.queues.promoted)
        )
        if paused and may_run:
            self._progress = now
        return may_run

    def _interrupt(self) -> None:
        """End an interruptible kernel that runs, or runs next, as soon as the device can. Thread-safe."""
        if self._inline is not None:
            self._inline.interrupt()

    def _wake(self) -> None:
        """Have the engine thread schedule again; called on the threads of other engines."""
        self._post(lambda _: None, None)

    def _start_kernel(self, scheduled: ScheduledKernel, now: float) -> bool:
        """Start a kernel; return whether it has ended already."""
        batch = scheduled.batch
        context = scheduled.context
        if not self._member.alone:
            self._member.note_kernel(background=batch.is_background)
        if context.inputs is None:
            alone = not self._scheduler.block_manager.quantised_keys
            context.inputs = inputs_of(batch.chunks_of(context), drafts_alone=alone)
            if batch.stage is not Stage.DECODE:  # its sequences started with their prompts
                self._outputs.mark_started(batch, now)
        kernel, role = scheduled.kernel, scheduled.role
        if self._inline is None:
            self._platform.xpus[role].submit(
                kernel, context, functools.partial(self._post, self._kernel_done)
            )
            return False
        done = self._inline.run(
            kernel,
            context,
            self._scheduler.hang_timeout_s(scheduled.cost),
            functools.partial(self._start_thread, role),
            interruptible=batch.interruptible and len(kernel.segments) == 1,
        )
        if done is not None:
            self._kernel_done(done)
        return done is not None

    def _post(self, run: Callable[[Any], None], argument: Any) -> None:
        """Have the engine thread ``run`` something; called on threads of an XPU or of the swapper."""
        self._commands.put((run, argument))

    def _chunks_loaded(self, loads: abc.Sequence[ChunkLoad]) -> None:
        self._progress = self._platform.now()
        self._scheduler.loads.complete(loads, self._progress)

    def _graph_loaded(self, loaded: GraphLoaded) -> None:
        if loaded.error is not None:
            _log.warning("%s", loaded.error)
        self._graph_loads += loaded.error is None
        self._platform.xpus[Role.PREFILL].install_loaded()
        self._scheduler.switcher.end_load(loaded.load, failed=loaded.error is not None)

    def _kernel_done(self, done: KernelDone) -> None:
        if done.error is not None:
            self._kernel_failed(done.role, done.error)
            return
        self._progress = done.ended
        self._reclaimed = False
        for trace in self._outputs.traces:
            trace.record(done, self._scheduler.kernel_on(done.role))
        if done.interrupted:
            self._scheduler.interrupt_kernel(done.role)
            return
        self._kernels += 1
        self._costs.observe(done)
        batch = self._scheduler.complete_kernel(done.role, done.ended)
        if batch is not None:
            for context in batch.contexts:
                note_attention(context, batch.chunks_of(context))
            self._outputs.process_batch(batch, done.ended)
            for context in batch.contexts:
                self._platform.release(context)
            self._costs.refine_if_due()
        if done.ended >= self._next_reclaim:
            # Of kernels that are not needed now, such as those of an NPU while there are no prompts.
            self._next_reclaim = done.ended + _RECLAIM_AFTER_S
            self._platform.reclaim(_RECLAIM_AFTER_S)

    def _kernel_hung(self, role: Role) -> None:
        """Rebuild the XPU of ``role``; the requests that ran on it go on (Agent.xpu §6.5)."""
        self._rebuilds += 1
        self._platform.xpus[role].rebuild()
        if role is Role.PREFILL:
            self._scheduler.switcher.reset()
        self._outputs.fail_faulty(self._scheduler.fail_kernel(role, hung=True), None)
        self._outputs.apply_memory_limit()

    def _kernel_failed(self, role: Role, error: Exception) -> None:
        """Retry what failed, unless the device is lost."""
        if isinstance(error, AgentRTError) and not isinstance(error, EngineFailedError):
            raise error
        self._outputs.fail_faulty(self._scheduler.fail_kernel(role, hung=False), error)

    def _release_dropped(self) -> None:
        for context in self._scheduler.take_dropped_contexts():
            self._platform.release(context)


def note_attention(context: BatchContext, chunks: list[ScheduledChunk]) -> None:
    """Add the attention scores of a completed batch of ``chunks``, if it has any, to its sequences."""
    if not context.scores or context.inputs is None:
        return
    inputs = context.inputs
    alone = len(inputs.past_lens) > sum(1 + len(chunk.branches) for chunk in chunks)
    sequences = [chunk.sequence for chunk in chunks for _ in range(chunk.subsequences(drafts_alone=alone))]
    begin = row = 0
    for sequence, past, end in zip(sequences, inputs.past_lens, inputs.subsequence_begins[1:], strict=True):
        tokens = past + end - row
        if sequence.attention is None:
            sequence.attention = AttentionMass()
        sequence.attention.add([layer[begin : begin + tokens] for layer in context.scores], past)
        begin, row = begin + tokens, end
