"""Who waits, who runs, and in which order they are served (Agent.xpu §6.1 dual queue, §6.5 aging)."""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from operator import attrgetter

from .policy import Policy
from .prefill_estimate import PrefillEstimate
from .sequence import Sequence, SequenceState
from .waiting_queue import RequestQueue, Turn

by_order = attrgetter("order")


class RequestQueues:
    """Every sequence that is alive: in its class's queue, or among those that hold blocks."""

    def __init__(self, policy: Policy, estimate: PrefillEstimate) -> None:
        """Nobody is alive."""
        self._policy = policy
        self._estimate = estimate
        self.queues: dict[int, RequestQueue] = {}
        """By class, the most urgent first."""
        self.running: list[Sequence] = []
        """Who holds blocks, sorted by :attr:`Sequence.order`."""
        self.promoted: set[Sequence] = set()
        self._ages: list[tuple[float, int, Sequence]] = []
        self._deadlines: list[tuple[float, int, Sequence]] = []

    @property
    def waiting(self) -> int:
        """Sequences in the queues."""
        return sum(map(len, self.queues.values()))

    @property
    def next_deadline(self) -> float:
        """When somebody may be late; infinite if nobody has a deadline."""
        return self._deadlines[0][0] if self._deadlines else float("inf")

    @property
    def last_waiting(self) -> Sequence:
        """The one in the queues that would be served after all others."""
        return next(queue.last for queue in reversed(self.queues.values()) if queue)

    def alive(self, rank: int) -> bool:
        """Whether there is work of this class."""
        return bool(self.queues.get(rank)) or any(sequence.rank == rank for sequence in self.running)

    def turn(self, sequence: Sequence) -> Turn:
        """Who is served first among the prompts of a class: promoted ones, then the shortest left (§6.2)."""
        by_arrival = sequence.promoted or not sequence.rank or not self._policy.shortest_first
        return (
            not sequence.promoted,
            0.0 if by_arrival else self._estimate.seconds_left(sequence),
            sequence.id,
        )

    def arrive(self, sequence: Sequence, now: float) -> None:
        """Let a new sequence wait."""
        sequence.rank = int(sequence.priority) if self._policy.by_priority else 0
        if sequence.rank not in self.queues:
            self.queues[sequence.rank] = RequestQueue()
            self.queues = dict(sorted(self.queues.items()))
        patience = self._policy.promote_after_s
        if sequence.deadline is not None:
            heapq.heappush(self._deadlines, (sequence.deadline, sequence.id, sequence))
            patience = min(patience, (sequence.deadline - now) / 2)
        if sequence.rank and patience < float("inf"):
            heapq.heappush(self._ages, (now + patience, sequence.id, sequence))
        self._wait(sequence)

    def admit(self, sequence: Sequence) -> None:
        """Move a waiting sequence, which holds blocks now, to those that run."""
        self.queues[sequence.rank].remove(sequence)
        sequence.state = SequenceState.PREFILL
        insort(self.running, sequence, key=by_order)

    def send_back(self, sequence: Sequence) -> None:
        """Let a running sequence, which has lost its blocks, wait again."""
        self._stop(sequence)
        self._wait(sequence)

    def finish(self, sequence: Sequence) -> None:
        """Strike off a sequence that is alive."""
        if sequence.state is SequenceState.WAITING:
            self.queues[sequence.rank].remove(sequence)
        else:
            self._stop(sequence)
        sequence.state = SequenceState.FINISHED
        self.promoted.discard(sequence)

    def promote(self, now: float) -> None:
        """Put those before their equals who have waited too long."""
        while self._ages and self._ages[0][0] <= now:
            sequence = heapq.heappop(self._ages)[2]
            if sequence.state is SequenceState.FINISHED:
                continue
            self.promoted.add(sequence)
            if sequence.state is SequenceState.WAITING:
                self.queues[sequence.rank].remove(sequence)
                sequence.promoted = True
                self._wait(sequence)
            else:
                self._stop(sequence)
                sequence.promoted = True
                insort(self.running, sequence, key=by_order)

    def late(self, now: float) -> list[Sequence]:
        """Those alive whose deadline has passed since last asked."""
        late = []
        while self._deadlines and self._deadlines[0][0] <= now:
            sequence = heapq.heappop(self._deadlines)[2]
            if sequence.state is not SequenceState.FINISHED:
                late.append(sequence)
        return late

    def check_integrity(self) -> None:
        """Check that everyone is where the state says, and in order.

        Raises:
            AssertionError: always a bug.
        """
        for queue in self.queues.values():
            queue.check_integrity()
            for sequence in queue.first(len(queue)):
                if sequence.state is not SequenceState.WAITING or sequence.blocks or sequence.computed:
                    raise AssertionError(f"sequence {sequence.id} waits, but is {sequence.state} with blocks")
        for sequence in self.running:
            if sequence.state not in (SequenceState.PREFILL, SequenceState.DECODE):
                raise AssertionError(f"sequence {sequence.id} runs, but is {sequence.state}")
        if self.running != sorted(self.running, key=by_order):
            raise AssertionError("those who run are not in order")

    def _wait(self, sequence: Sequence) -> None:
        sequence.state = SequenceState.WAITING
        self.queues[sequence.rank].add(sequence, self.turn(sequence))

    def _stop(self, sequence: Sequence) -> None:
        del self.running[bisect_left(self.running, sequence.order, key=by_order)]
