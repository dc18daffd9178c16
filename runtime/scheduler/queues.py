"""Request queues: waiting and running sequences in serving order, and aging (Agent.xpu §6.1, §6.2, §6.5)."""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from itertools import islice
from operator import attrgetter, itemgetter
from typing import TypeAlias

from ..heg.graph import ExecutionGraph
from ..heg.kernel import BatchShape
from .policy import Policy
from .sequence import REACTIVE_LEVEL, Sequence, SequenceState

QueueKey: TypeAlias = tuple[bool, float, int]
"""Sort key of a waiting sequence: not promoted, estimated seconds left (or 0), arrival number. Lower is
first."""

by_order = attrgetter("order")
_by_key = itemgetter(0)


class PrefillEstimate:
    """Seconds to compute the rest of a prompt, for ordering only (§6.2: estimated time to completion).

    Token-level work costs the same for every token; a token's attention costs more the more tokens precede
    it. The costs of two chunks, one at the beginning of a context and one far into it, separate the two.
    """

    def __init__(self, graph: ExecutionGraph) -> None:
        """Take the cost per token and per preceding token from ``graph``, once for all estimates."""
        chunk = graph.chunk_tokens(0, graph.max_chunk_tokens)
        far = 16 * chunk
        first = graph.estimate_seconds(BatchShape(chunk, 1, 0, 0))
        self._per_token = first / chunk
        later = graph.estimate_seconds(BatchShape(chunk, 1, far, 0))
        self._per_past_token = max(0.0, later - first) / (far * chunk)

    def seconds_left(self, sequence: Sequence) -> float:
        """Seconds until ``sequence`` can decode if it runs alone from now on."""
        tokens = max(0, sequence.prefill_end - sequence.computed_tokens)
        mean_past = sequence.computed_tokens + tokens / 2
        return tokens * (self._per_token + self._per_past_token * mean_past)


class RequestQueue:
    """The waiting sequences of one priority level, sorted. Reading the first ones is O(1) in its length."""

    def __init__(self) -> None:
        """Create an empty queue."""
        self._sorted: list[tuple[QueueKey, Sequence]] = []
        self._keys: dict[Sequence, QueueKey] = {}

    def __len__(self) -> int:
        """How many sequences wait."""
        return len(self._sorted)

    def add(self, sequence: Sequence, key: QueueKey) -> None:
        """Insert ``sequence`` by ``key``; the lower key is served first."""
        self._keys[sequence] = key
        insort(self._sorted, (key, sequence), key=_by_key)

    def remove(self, sequence: Sequence) -> None:
        """Remove ``sequence``, which is in the queue."""
        del self._sorted[bisect_left(self._sorted, self._keys.pop(sequence), key=_by_key)]

    def first(self, count: int) -> list[Sequence]:
        """The ``count`` sequences that are served next, or all if there are fewer."""
        return [sequence for _, sequence in islice(self._sorted, count)]

    @property
    def last(self) -> Sequence:
        """The sequence that is served after all others."""
        return self._sorted[-1][1]

    def check_integrity(self) -> None:
        """Check that every sequence is in the queue once, in order.

        Raises:
            AssertionError: always a bug.
        """
        keys = [key for key, _ in self._sorted]
        if keys != sorted(self._keys.values()) or len(set(keys)) != len(keys):
            raise AssertionError("the queue is not sorted, or a sequence is in it twice")


class RequestQueues:
    """All unfinished sequences: one queue of waiting ones per priority level, and the running ones."""

    def __init__(self, policy: Policy, graph: ExecutionGraph) -> None:
        """Create empty queues. ``graph`` estimates prefill times, where the policy orders by them."""
        self._policy = policy
        self._graph = graph
        self.update_costs()
        self.by_level: dict[int, RequestQueue] = {}
        """The queue of each priority level, the most urgent level first."""
        self.running: list[Sequence] = []
        """Sequences that hold blocks, sorted by :attr:`Sequence.order`."""
        self.promoted: set[Sequence] = set()
        """Unfinished sequences that have been promoted by aging, waiting or running."""
        # Heaps by time; a sequence that has finished meanwhile is skipped when its time comes.
        self._promotions: list[tuple[float, int, Sequence]] = []
        self._deadlines: list[tuple[float, int, Sequence]] = []

    def update_costs(self) -> None:
        """Order sequences that are queued from now on by the present costs of the graph."""
        self._estimate = PrefillEstimate(self._graph)

    @property
    def num_waiting(self) -> int:
        """Sequences in all queues."""
        return sum(map(len, self.by_level.values()))

    @property
    def next_deadline(self) -> float:
        """The earliest deadline, possibly of a finished sequence; infinite if there is none."""
        return self._deadlines[0][0] if self._deadlines else float("inf")

    @property
    def last_waiting(self) -> Sequence:
        """The waiting sequence that is served after all others."""
        return next(queue.last for queue in reversed(self.by_level.values()) if queue)

    @property
    def has_reactive_work(self) -> bool:
        """Whether any sequence that is not background waits or runs."""
        waiting = self.by_level.get(REACTIVE_LEVEL)
        return bool(waiting) or any(not sequence.is_background for sequence in self.running)

    def key(self, sequence: Sequence) -> QueueKey:
        """Return the queue key: background prompts by estimated time left (§6.2), all others by arrival."""
        by_arrival = sequence.promoted or not sequence.is_background or not self._policy.shortest_first
        return (
            not sequence.promoted,
            0.0 if by_arrival else self._estimate.seconds_left(sequence),
            sequence.id,
        )

    def add(self, sequence: Sequence, now: float) -> None:
        """Queue a new sequence at its priority level, and note its promotion time (aging) and deadline."""
        sequence.level = int(sequence.priority) if self._policy.by_priority else REACTIVE_LEVEL
        if sequence.level not in self.by_level:
            self.by_level[sequence.level] = RequestQueue()
            self.by_level = dict(sorted(self.by_level.items()))
        promoted_in = self._policy.promote_after_s
        if sequence.deadline is not None:
            heapq.heappush(self._deadlines, (sequence.deadline, sequence.id, sequence))
            promoted_in = min(promoted_in, (sequence.deadline - now) / 2)
        if sequence.is_background and promoted_in < float("inf"):
            heapq.heappush(self._promotions, (now + promoted_in, sequence.id, sequence))
        self._enqueue(sequence)

    def admit(self, sequence: Sequence) -> None:
        """Move a waiting sequence, which now holds blocks, to the running ones."""
        self.by_level[sequence.level].remove(sequence)
        sequence.state = SequenceState.PREFILL
        insort(self.running, sequence, key=by_order)

    def requeue(self, sequence: Sequence) -> None:
        """Move a running sequence, which has lost its blocks, back to its queue."""
        self._remove_running(sequence)
        sequence.evicted = True
        self._enqueue(sequence)

    def finish(self, sequence: Sequence) -> None:
        """Remove an unfinished sequence from wherever it is, and mark it FINISHED."""
        if sequence.state is SequenceState.WAITING:
            self.by_level[sequence.level].remove(sequence)
        else:
            self._remove_running(sequence)
        sequence.state = SequenceState.FINISHED
        self.promoted.discard(sequence)

    def promote_aged(self, now: float) -> None:
        """Promote the unfinished background sequences whose promotion time has come (aging, §6.5).

        A promoted sequence is first in its queue and in :attr:`Sequence.order` of its level. The kernel
        selector gives promoted work one kernel after every :attr:`Policy.promoted_stride` others.
        """
        while self._promotions and self._promotions[0][0] <= now:
            sequence = heapq.heappop(self._promotions)[2]
            if sequence.state is SequenceState.FINISHED:
                continue
            self.promoted.add(sequence)
            if sequence.state is SequenceState.WAITING:
                self.by_level[sequence.level].remove(sequence)
                sequence.promoted = True
                self._enqueue(sequence)
            else:
                self._remove_running(sequence)
                sequence.promoted = True
                insort(self.running, sequence, key=by_order)

    def pop_expired(self, now: float) -> list[Sequence]:
        """Return the unfinished sequences whose deadline has passed, each of them once."""
        expired = []
        while self._deadlines and self._deadlines[0][0] <= now:
            sequence = heapq.heappop(self._deadlines)[2]
            if sequence.state is not SequenceState.FINISHED:
                expired.append(sequence)
        return expired

    def check_integrity(self) -> None:
        """Check that every sequence is where its state says, and in order.

        Raises:
            AssertionError: always a bug.
        """
        for queue in self.by_level.values():
            queue.check_integrity()
            for sequence in queue.first(len(queue)):
                if sequence.state is not SequenceState.WAITING or sequence.blocks or sequence.computed_tokens:
                    raise AssertionError(f"sequence {sequence.id} waits, but is {sequence.state} with blocks")
        for sequence in self.running:
            if sequence.state in (SequenceState.WAITING, SequenceState.FINISHED):
                raise AssertionError(f"sequence {sequence.id} runs, but is {sequence.state}")
        if self.running != sorted(self.running, key=by_order):
            raise AssertionError("the running sequences are not in order")

    def _enqueue(self, sequence: Sequence) -> None:
        sequence.state = SequenceState.WAITING
        self.by_level[sequence.level].add(sequence, self.key(sequence))

    def _remove_running(self, sequence: Sequence) -> None:
        del self.running[bisect_left(self.running, sequence.order, key=by_order)]
