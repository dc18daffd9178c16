"""The engine in virtual time: the same scheduler on simulated XPUs, for benches, replays and what-ifs.

Nothing is computed, so that an hour of a machine that is not here takes seconds; everything else is the real
thing. Two runs of the same requests are the same to the last kernel.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from agentrt.priority import Priority

from ..context.block_pool import BlockPool
from ..heg.graph import ExecutionGraph
from ..scheduler.policy import Policy
from ..scheduler.scheduler import Scheduler
from ..scheduler.sequence import Sequence, SequenceState
from ..xpu.protocol import KernelDone
from ..xpu.simulated import SimulatedPlatform
from .trace import Trace


@dataclass(frozen=True, slots=True)
class SimulatedRequest:
    """A request of which only the size matters."""

    prompt_tokens: int
    answer_tokens: int
    """At least 1."""
    priority: Priority


@dataclass(frozen=True, slots=True)
class SimulatedAnswer:
    """What became of a request. Times are seconds on the virtual clock."""

    request: SimulatedRequest
    arrived: float
    first_token: float
    ended: float

    @property
    def time_to_first_token_s(self) -> float:
        """Seconds from arrival to the first token."""
        return self.first_token - self.arrived

    @property
    def normalized_latency_s(self) -> float:
        """Time to the first token by length of the prompt (Agent.xpu §8.1)."""
        return self.time_to_first_token_s / self.request.prompt_tokens


OnAnswer: TypeAlias = Callable[[SimulatedAnswer], None]


class Simulation:
    """Requests on a simulated platform under a policy."""

    def __init__(
        self,
        platform: SimulatedPlatform,
        graph: ExecutionGraph,
        policy: Policy,
        *,
        blocks: int,
        max_batch_size: int,
    ) -> None:
        """``platform`` and ``graph`` are what :func:`.xpu.simulate` returns; ``blocks`` is the KV arena."""
        self.clock = platform.clock
        self.trace = Trace()
        self.answers: list[SimulatedAnswer] = []
        """In the order in which they ended."""
        self.scheduler = Scheduler(
            BlockPool(blocks), graph, policy, max_batch_size=max_batch_size, share_sampled=False
        )
        self._platform = platform
        self._ids = itertools.count()
        self._alive: dict[Sequence, tuple[SimulatedRequest, OnAnswer | None]] = {}
        self._first: dict[Sequence, float] = {}
        self._to_come = 0
        self._watched = float("inf")

    def submit(
        self, request: SimulatedRequest, at: float | None = None, on_answer: OnAnswer | None = None
    ) -> None:
        """Let ``request`` arrive ``at`` a time, now if None; ``on_answer`` is told when it is answered."""
        self._to_come += 1
        self.clock.call_at(self.clock.now if at is None else at, lambda: self._arrive(request, on_answer))

    def run(self, until: float = float("inf")) -> None:
        """Let time pass until every request is answered, or ``until`` a time."""
        while (self._to_come or self._alive) and self.clock.next_event <= until:
            self.clock.advance()

    def _arrive(self, request: SimulatedRequest, on_answer: OnAnswer | None) -> None:
        self._to_come -= 1
        sequence = Sequence(
            next(self._ids), request.priority, [0] * request.prompt_tokens, arrived=self.clock.now
        )
        self._alive[sequence] = (request, on_answer)
        shed = self.scheduler.add(sequence, self.clock.now)
        if shed is not None:
            del self._alive[shed]
        self._dispatch()

    def _dispatch(self) -> None:
        for scheduled in self.scheduler.schedule(self.clock.now):
            xpu = self._platform.xpus[scheduled.role]
            xpu.submit(scheduled.kernel, scheduled.batch.context, self._kernel_ended)
        for context in self.scheduler.take_dropped_contexts():
            self._platform.release(context)
        due = self.scheduler.next_timeout()
        if due < self._watched:
            self._watched = due
            self.clock.call_at(due, self._look_after)

    def _look_after(self) -> None:
        """Start XPUs afresh whose kernels hang; what was on them goes on."""
        self._watched = float("inf")
        for role in self.scheduler.hung_kernels(self.clock.now):
            self._platform.xpus[role].rebuild()
            for sequence in self.scheduler.fail_kernel(role, hung=True):
                del self._alive[sequence]
        self._dispatch()

    def _kernel_ended(self, done: KernelDone) -> None:
        self.trace.note(done, self.scheduler.batch_on(done.role))
        through = self.scheduler.complete_kernel(done.role, done.ended)
        for chunk in through.chunks if through is not None else ():
            if chunk.samples and chunk.sequence.state is not SequenceState.FINISHED:
                self._take(chunk.sequence)
        self._dispatch()

    def _take(self, sequence: Sequence) -> None:
        now = self.clock.now
        sequence.tokens.append(0)
        first = self._first.setdefault(sequence, now)
        request, on_answer = self._alive[sequence]
        if len(sequence.tokens) < request.prompt_tokens + request.answer_tokens:
            return
        self.scheduler.finish(sequence)
        del self._alive[sequence], self._first[sequence]
        answer = SimulatedAnswer(request, sequence.arrived, first, now)
        self.answers.append(answer)
        if on_answer is not None:
            on_answer(answer)
