"""The engine in virtual time: the scheduler on simulated XPUs, for benches, replays and what-if studies.

Kernels take the time that the machine's profile predicts and compute nothing, so that an hour of a machine
takes seconds. Two simulations of the same requests are equal down to the last kernel.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from agentrt.priority import Priority
from agentrt.runtime.engine.trace import Trace
from agentrt.runtime.heg.graph import ExecutionGraph
from agentrt.runtime.heg.kernel import Role
from agentrt.runtime.kv.block_pool import BlockPool
from agentrt.runtime.scheduler.draft import Draft
from agentrt.runtime.scheduler.policy import Policy
from agentrt.runtime.scheduler.scheduler import Scheduler
from agentrt.runtime.scheduler.sequence import Sequence, SequenceState
from agentrt.runtime.xpu.protocol import GraphLoaded, KernelDone

from .platform import SimulatedPlatform


@dataclass(frozen=True, slots=True)
class SimulatedRequest:
    """A request described by the lengths of its prompt and its answer."""

    prompt_tokens: int
    answer_tokens: int
    """At least 1."""
    priority: Priority
    passes: tuple[tuple[int, int], ...] = ()
    """Draft tokens of each forward pass behind the first token, and the tokens that it adds to the answer, at
    most one more. Further passes verify none and add one."""
    calibrates: bool = False
    """Whether logits of all its prompt's tokens are computed (sd.npu §3.3)."""


@dataclass(frozen=True, slots=True)
class SimulatedOutput:
    """The times of a finished request, in seconds on the virtual clock."""

    request: SimulatedRequest
    arrived: float
    first_token: float
    ended: float

    @property
    def time_to_first_token_s(self) -> float:
        return self.first_token - self.arrived

    @property
    def normalized_latency_s(self) -> float:
        """Time to the first token divided by the length of the prompt (Agent.xpu §8.1)."""
        return self.time_to_first_token_s / self.request.prompt_tokens


OnOutput: TypeAlias = Callable[[SimulatedOutput], None]


@dataclass(slots=True)
class _Alive:
    """A request that has not ended."""

    request: SimulatedRequest
    on_output: OnOutput | None
    passes: Iterator[tuple[int, int]]
    added: int = 1
    """Tokens that its next pass adds."""
    first_token: float | None = None


class Simulation:
    """Requests on a simulated platform under one scheduling policy."""

    def __init__(
        self,
        platform: SimulatedPlatform,
        graph: ExecutionGraph,
        policy: Policy,
        *,
        blocks: int,
        max_batch_size: int,
    ) -> None:
        """``platform`` and ``graph`` come from ``xpu.simulated.simulate``; ``blocks`` counts KV blocks."""
        self.clock = platform.clock
        self.trace = Trace()
        self.outputs: list[SimulatedOutput] = []
        """The finished requests, in the order in which they ended."""
        self.graph_loads: list[GraphLoaded] = []
        """The loads of graphs, in the order in which they ended."""
        self.scheduler = Scheduler(
            BlockPool(blocks),
            graph,
            policy,
            max_batch_size=max_batch_size,
            quantised_keys=True,
            share_sampled=False,
        )
        self.watts = {role: xpu.watts for role, xpu in graph.cost_model.xpus.items()}
        """Power of each XPU while it runs a kernel, by assumption."""
        self._platform = platform
        self._sequence_ids = itertools.count()
        self._alive: dict[Sequence, _Alive] = {}
        self._not_arrived = 0
        self._next_check = float("inf")

    def submit(
        self, request: SimulatedRequest, at: float | None = None, on_output: OnOutput | None = None
    ) -> None:
        """Let ``request`` arrive at time ``at``, now if None; ``on_output`` receives its output."""
        self._not_arrived += 1
        self.clock.call_at(self.clock.now if at is None else at, lambda: self._arrive(request, on_output))

    def run(self, until: float = float("inf")) -> None:
        """Advance the clock until every request has ended, or to time ``until``.

        A load of a graph that has no request to wait for it is left in progress.
        """
        while (self._not_arrived or self._alive) and self.clock.next_event <= until:
            self.clock.advance()

    def _arrive(self, request: SimulatedRequest, on_output: OnOutput | None) -> None:
        self._not_arrived -= 1
        number = next(self._sequence_ids)
        sequence = Sequence(
            number,
            request.priority,
            [0] * request.prompt_tokens,
            arrived=self.clock.now,
            request_id=f"request-{number}",
        )
        self._alive[sequence] = _Alive(request, on_output, iter(request.passes))
        sequence.calibrates = request.calibrates
        shed = self.scheduler.add(sequence, self.clock.now)
        if shed is not None:
            del self._alive[shed]
        self._dispatch()

    def _dispatch(self) -> None:
        for scheduled in self.scheduler.schedule(self.clock.now):
            xpu = self._platform.xpus[scheduled.role]
            xpu.submit(scheduled.kernel, scheduled.context, self._kernel_done)
        if (load := self.scheduler.next_graph_load()) is not None:
            self._platform.xpus[Role.PREFILL].load(load, self._graph_loaded)
        for context in self.scheduler.take_dropped_contexts():
            self._platform.release(context)
        due = self.scheduler.next_timeout()
        if due < self._next_check:
            self._next_check = due
            self.clock.call_at(due, self._rebuild_hung)

    def _rebuild_hung(self) -> None:
        """Rebuild the XPUs whose kernels hang; the requests on them go on."""
        self._next_check = float("inf")
        for role in self.scheduler.hung_kernels(self.clock.now):
            self._platform.xpus[role].rebuild()
            if role is Role.PREFILL:
                self.scheduler.switcher.reset()
            for sequence in self.scheduler.fail_kernel(role, hung=True):
                del self._alive[sequence]
        self._dispatch()

    def _graph_loaded(self, loaded: GraphLoaded) -> None:
        self.graph_loads.append(loaded)
        self.scheduler.switcher.end_load(loaded.load, failed=loaded.error is not None)
        self._dispatch()

    def _kernel_done(self, done: KernelDone) -> None:
        self.trace.record(done, self.scheduler.kernel_on(done.role))
        batch = self.scheduler.complete_kernel(done.role, done.ended)
        for chunk in batch.chunks if batch is not None else ():
            if chunk.samples and chunk.sequence.state is not SequenceState.FINISHED:
                self._append_tokens(chunk.sequence, len(chunk.draft))
        self._dispatch()

    def _append_tokens(self, sequence: Sequence, verified: int) -> None:
        now, alive = self.clock.now, self._alive[sequence]
        request = alive.request
        if alive.first_token is None:
            alive.first_token = now
        left = request.prompt_tokens + request.answer_tokens - len(sequence.tokens)
        for _ in range(min(alive.added - 1, verified, left - 1)):
            sequence.tokens.append(0)
            self.scheduler.accept_draft_token(sequence)
            left -= 1
        sequence.tokens.append(0)
        if left > 1:
            drafted, alive.added = next(alive.passes, (0, 1))
            drafted = min(drafted, left - 2)
            self.scheduler.set_draft(sequence, Draft((0,) * drafted, (1.0,) * drafted))
            return
        self.scheduler.finish(sequence)
        del self._alive[sequence]
        output = SimulatedOutput(request, sequence.arrived, alive.first_token, now)
        self.outputs.append(output)
        if alive.on_output is not None:
            alive.on_output(output)
