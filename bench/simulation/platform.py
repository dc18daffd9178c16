"""Simulated XPUs in virtual time: kernels take their estimated time, longer where they share the memory.

Kernels that run side by side slow each other down as in Agent.xpu §3.1 (Fig. 3), in two ways:

- Together they get no more than the attainable bandwidth. It is shared max-min fairly, so that a
  compute-bound kernel, which needs little, is hardly slowed down, and a memory-bound one gets what is left.
- Below that limit, too, an access takes longer beside others. A kernel that needs the share ``a`` of the
  bandwidth takes ``1 + interference * a * b`` times as long while the others need the share ``b``: noticeably
  for two memory-bound kernels, little where one of them computes.
"""

from __future__ import annotations

import functools
import heapq
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from agentrt.errors import ConfigurationError
from agentrt.runtime.heg.granularity import choose_granularity
from agentrt.runtime.heg.graph import ExecutionGraph
from agentrt.runtime.heg.kernel import BatchContext, GraphLoad, Kernel, KernelKind, Role, StaticGraph
from agentrt.runtime.heg.profile import Profile
from agentrt.runtime.xpu.protocol import GraphLoaded, KernelDone

from .rooflines import Contention, simulated_contention, simulated_profile

PREFIX: Final = "simulated:"
"""Prefix of the names of simulated platforms; the machine's name follows."""


class VirtualClock:
    """A clock that only :meth:`advance` and :meth:`advance_to` move. Not thread-safe."""

    def __init__(self) -> None:
        self.now = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()

    @property
    def next_event(self) -> float:
        """When the next event is due; infinite if there is none."""
        return self._events[0][0] if self._events else float("inf")

    def call_at(self, time: float, event: Callable[[], None]) -> None:
        """Schedule ``event`` for ``time``, or for now if that is over. Only advancing calls it."""
        heapq.heappush(self._events, (max(time, self.now), next(self._order), event))

    def advance(self) -> bool:
        """Advance to the next event and call it; return False if there is none."""
        if not self._events:
            return False
        self.now, _, event = heapq.heappop(self._events)
        event()
        return True

    def advance_to(self, time: float) -> None:
        """Advance to ``time``, calling every event that is due on the way."""
        while self.next_event <= time:
            self.advance()
        self.now = max(self.now, time)


@dataclass(slots=True, eq=False)
class _Running:
    """A kernel in progress on some XPU."""

    left_s: float
    """Seconds that it has yet to run with the memory to itself."""
    share: float
    """The share of the memory bandwidth that it needs to run at full speed."""
    on_done: Callable[[], None]
    rate: float = 1.0


class SharedMemory:
    """The memory bandwidth of a machine, shared max-min fairly by the kernels of its XPUs."""

    def __init__(self, clock: VirtualClock, contention: Contention) -> None:
        """Create the memory without running kernels. Ends of kernels become events of ``clock``."""
        self._clock = clock
        self._contention = contention
        self._running: list[_Running] = []
        self._settled = 0.0
        self._version = 0

    def start(self, seconds: float, share: float, on_done: Callable[[], None]) -> object:
        """Start a kernel that takes ``seconds`` alone; return a handle for :meth:`stop`."""
        running = _Running(seconds, share, on_done)
        self._settle()
        self._running.append(running)
        self._plan()
        return running

    def stop(self, running: object) -> None:
        """Remove a running kernel; its ``on_done`` is not called."""
        self._settle()
        self._running = [other for other in self._running if other is not running]
        self._plan()

    def _settle(self) -> None:
        """Account for the progress of all kernels until now."""
        elapsed = self._clock.now - self._settled
        self._settled = self._clock.now
        for running in self._running:
            running.left_s -= elapsed * running.rate

    def _plan(self) -> None:
        """Share the bandwidth among the running kernels, and schedule the end of the next to end."""
        by_share = sorted(self._running, key=lambda running: running.share)
        left, wanted = self._contention.attainable, sum(running.share for running in by_share)
        for at, running in enumerate(by_share):
            given = min(running.share, left / (len(by_share) - at))
            left -= given
            slower = 1 + self._contention.interference * running.share * (wanted - running.share)
            running.rate = (given / running.share if running.share > 0 else 1.0) / slower
        self._version += 1
        if self._running:
            version = self._version
            first = min(self._running, key=lambda running: running.left_s / running.rate)
            due = self._clock.now + max(0.0, first.left_s) / first.rate
            self._clock.call_at(due, lambda: self._end(first, version))

    def _end(self, running: _Running, version: int) -> None:
        if version != self._version:
            return  # the bandwidth has been shared again since
        self.stop(running)
        running.on_done()


class SimulatedXPU:
    """An XPU that computes nothing, for as long as the cost model estimates."""

    def __init__(self, role: Role, costs: Profile, clock: VirtualClock, memory: SharedMemory) -> None:
        """``memory`` is the machine's, shared with its other XPUs."""
        self._role = role
        self._costs = costs
        self._clock = clock
        self._memory = memory
        self._running: object | None = None
        self._loading: object | None = None
        self._graphs: dict[int, StaticGraph] = {}
        self.hang_next = False
        """Whether the next kernel hangs until :meth:`rebuild`."""
        self.rebuilds = 0

    @property
    def role(self) -> Role:
        return self._role

    def submit(self, kernel: Kernel, context: BatchContext, on_done: Callable[[KernelDone], None]) -> None:
        """See :meth:`XPU.submit`. ``on_done`` is called as an event of the clock."""
        assert self._running is None, "an XPU runs one kernel at a time"
        started = self._clock.now
        graph = None
        if kernel.kind is KernelKind.TOKENS:
            graph = self._graphs.get(kernel.segments.start, StaticGraph.PREFILL)
        cost = self._costs.estimate(kernel, context.shape, self._role, graph)

        def end() -> None:
            self._running = None
            on_done(KernelDone(context, kernel, self._role, started, self._clock.now))

        hangs, self.hang_next = self.hang_next, False
        seconds = float("inf") if hangs else cost.seconds
        self._running = self._memory.start(seconds, cost.bandwidth_share, end)

    def run(
        self,
        kernel: Kernel,
        context: BatchContext,
        timeout_s: float,
        on_lost: Callable[[], None] | None = None,
        *,
        interruptible: bool = False,
    ) -> KernelDone | None:
        """See :meth:`XPU.run`. Advances the clock until the kernel ends; no thread is ever lost."""
        ended: list[KernelDone] = []
        deadline = self._clock.now + timeout_s
        self.submit(kernel, context, ended.append)
        while not ended and self._clock.next_event <= deadline:
            self._clock.advance()
        if not ended:
            self._clock.advance_to(deadline)
            return None
        return ended[0]

    def interrupt(self) -> None:
        """See :meth:`XPU.interrupt`. Does nothing: no time passes while a kernel runs."""

    def allow_kernels(self) -> None:
        pass

    def load(self, load: GraphLoad, on_done: Callable[[GraphLoaded], None]) -> None:
        """See :meth:`XPU.load`. Takes its estimated time, longer where it shares the memory."""
        started = self._clock.now
        cost = self._costs.estimate_load(load.kernel)

        def end() -> None:
            self._loading = None
            self._graphs[load.group] = load.graph
            on_done(GraphLoaded(load, started, self._clock.now))

        self._loading = self._memory.start(cost.seconds, cost.bandwidth_share, end)

    def install_loaded(self) -> None:
        """See :meth:`XPU.install_loaded`. Does nothing: the end of a load does it."""

    def rebuild(self) -> None:
        """See :meth:`XPU.rebuild`. Takes no virtual time."""
        self._stop_running()
        self._graphs.clear()
        self.rebuilds += 1

    def close(self) -> None:
        self._stop_running()
        if self._loading is not None:
            self._memory.stop(self._loading)
            self._loading = None

    def _stop_running(self) -> None:
        if self._running is not None:
            self._memory.stop(self._running)
            self._running = None


class SimulatedPlatform:
    """The XPUs of a profile in virtual time; see :class:`Platform`."""

    def __init__(self, name: str, profile: Profile, contention: Contention) -> None:
        """Create the XPUs of ``profile`` and a clock at 0."""
        self._name = name
        self.clock: Final = VirtualClock()
        memory = SharedMemory(self.clock, contention)
        self._xpus = {role: SimulatedXPU(role, profile, self.clock, memory) for role in profile.xpus}

    @property
    def name(self) -> str:
        return self._name

    @property
    def xpus(self) -> Mapping[Role, SimulatedXPU]:
        return self._xpus

    def now(self) -> float:
        return self.clock.now

    def release(self, context: BatchContext) -> None:
        """See :meth:`Platform.release`. Does nothing: there are no buffers."""

    def reclaim(self, idle_s: float) -> None:
        """See :meth:`Platform.reclaim`. Does nothing: kernels have no memory."""

    def close(self) -> None:
        for xpu in self._xpus.values():
            xpu.close()


def simulate(
    name: str,
    *,
    max_chunk_tokens: int,
    quantum_s: float,
    npu_decoding: bool = False,
    one_xpu: bool = False,
) -> tuple[SimulatedPlatform, ExecutionGraph]:
    """Return the platform ``simulated:<machine>`` and the execution graph of its model.

    ``npu_decoding`` has its NPU decode as well, where it has one (:attr:`RuntimeConfig.npu_decoding`);
    ``one_xpu`` leaves it out.

    Raises:
        ConfigurationError: no such machine ships with the runtime.
    """
    if not name.startswith(PREFIX):
        raise ConfigurationError(
            f"{name!r} is not a simulated platform. Use a name of the form {PREFIX}<machine>."
        )
    machine = name.removeprefix(PREFIX)
    profile, graph = _simulated_graph(machine, max_chunk_tokens, quantum_s, npu_decoding, one_xpu)
    if npu_decoding:  # such a graph changes its routes while requests run
        graph = _build_graph(profile, max_chunk_tokens, quantum_s)
    return SimulatedPlatform(name, profile, simulated_contention(machine)), graph


@functools.lru_cache(16)
def _simulated_graph(
    machine: str, max_chunk_tokens: int, quantum_s: float, npu_decoding: bool, one_xpu: bool
) -> tuple[Profile, ExecutionGraph]:
    """Return the profile and the execution graph of a machine."""
    profile = simulated_profile(machine, npu_decoding=npu_decoding)
    if one_xpu:
        profile = profile.model_copy(update={"xpus": {Role.DECODE: profile.xpus[Role.DECODE]}})
    return profile, _build_graph(profile, max_chunk_tokens, quantum_s)


def _build_graph(profile: Profile, max_chunk_tokens: int, quantum_s: float) -> ExecutionGraph:
    return choose_granularity(
        profile,
        range(1, profile.layers),
        block_tokens=profile.block_tokens,
        max_chunk_tokens=max_chunk_tokens,
        quantum_s=quantum_s,
    )
