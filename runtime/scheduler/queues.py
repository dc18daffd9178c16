"""Request queues: waiting and running sequences in serving order, and aging (Agent.xpu §6.1, §6.2, §6.5)."""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from typing import Final

from ..heg.graph import ExecutionGraph
from ..heg.kernel import BatchShape
from .draft import NO_DRAFT
from .fair_queue import FairQueue, QueueKey
from .policy import Policy
from .sequence import REACTIVE_LEVEL, Sequence, SequenceState, by_order

MAX_CHANGES: Final = 16
"""Sequences that one decision promotes at most, and that it ends for their deadlines."""


class RequestQueues:
    """All unfinished sequences: one queue of waiting ones per priority level, and the running ones."""

    def __init__(self, policy: Policy, graph: ExecutionGraph, max_batch_size: int) -> None:
        """Create empty queues. ``graph`` estimates prefill times, where the policy orders by them."""
        self._policy = policy
        self._graph = graph
        self._max_batch_size = max_batch_size
        self.update_costs()
        self.by_level: dict[int, FairQueue] = {}
        """The queue of each priority level, the most urgent level first."""
        self.reactive_elsewhere = False
        """Whether another engine on this machine has reactive work."""
        self._urgent = False
        self._urgent_since = self._last_urgent = float("-inf")
        self._between_urgent: float | None = None
        self.running: list[Sequence] = []
        """Sequences that hold blocks, sorted by :attr:`Sequence.order`."""
        self.changes = 0
        """Times that a sequence was added, has changed between waiting and running, was extended or ended."""
        self.promoted: set[Sequence] = set()
        """Unfinished sequences that have been promoted by aging, waiting or running."""
        # Heaps by time; a sequence that has finished meanwhile is skipped when its time comes.
        self._promotions: list[tuple[float, int, Sequence]] = []
        self._deadlines: list[tuple[float, int, Sequence]] = []

    def update_costs(self) -> None:
        """Order sequences that are queued from now on by the present costs of the graph.

        Token-level work costs the same for every token; a token's attention costs more the more tokens
        precede it. The costs of two chunks, at the beginning of a context and far into it, separate the two.
        """
        chunk = self._graph.chunk_tokens(0, self._graph.max_chunk_tokens)
        far = 16 * chunk
        first = self._graph.estimate_seconds(BatchShape(chunk, 1, 0, 0))
        later = self._graph.estimate_seconds(BatchShape(chunk, 1, far, 0))
        self._per_token = first / chunk
        self._per_past_token = max(0.0, later - first) / (far * chunk)

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

    @property
    def has_urgent_work(self) -> bool:
        """Whether anything on this machine is more urgent than background work."""
        return self.reactive_elsewhere or self.has_reactive_work

    def note_urgency(self, urgent: bool, now: float) -> None:
        """Note at every decision whether anything is urgent."""
        if urgent and not self._urgent:
            between, before = now - self._urgent_since, self._between_urgent
            if self._urgent_since > float("-inf"):
                self._between_urgent = between if before is None else min(between, (before + between) / 2)
            self._urgent_since = now
        if urgent:
            self._last_urgent = now
        self._urgent = urgent

    def is_calm(self, now: float) -> bool:
        """Whether urgent work is not expected within :attr:`Policy.calm_s`.

        There was none for as long, or it has come less often: what counts is the mean of the seconds between
        its beginnings, the last ones most, and a shorter distance at once.
        """
        between = self._between_urgent
        return max(now - self._last_urgent, between or 0.0) >= self._policy.calm_s

    def in_serving_order(self, most: int) -> list[Sequence]:
        """Return at most ``most`` sequences: the running ones, then those that are served next."""
        found = self.running[:most]
        for queue in self.by_level.values():
            found += queue.next_in_order(most - len(found))
        return found

    def prefill_seconds_left(self, sequence: Sequence) -> float:
        """Estimate the seconds until ``sequence`` can decode if it runs alone from now on."""
        tokens = max(0, sequence.prefill_end - sequence.computed_tokens)
        mean_past = sequence.computed_tokens + tokens / 2
        return tokens * (self._per_token + self._per_past_token * mean_past)

    def key(self, sequence: Sequence) -> QueueKey:
        """Return the queue key: background prompts by estimated time left (§6.2), all others by arrival."""
        by_arrival = sequence.promoted or not sequence.is_background or not self._policy.shortest_first
        return (
            not sequence.promoted,
            0.0 if by_arrival else self.prefill_seconds_left(sequence),
            sequence.id,
        )

    def add(self, sequence: Sequence, now: float) -> None:
        """Queue a new sequence at its priority level, and note its promotion time (aging) and deadline."""
        self.changes += 1
        sequence.level = int(sequence.priority) if self._policy.by_priority else REACTIVE_LEVEL
        if sequence.level not in self.by_level:
            self.by_level[sequence.level] = FairQueue(self._policy, self._max_batch_size)
            self.by_level = dict(sorted(self.by_level.items()))
        promoted_in = self._policy.promote_after_s
        if sequence.deadline is not None:
            heapq.heappush(self._deadlines, (sequence.deadline, sequence.id, sequence))
            promoted_in = min(promoted_in, (sequence.deadline - now) / 2)
        if sequence.is_background and promoted_in < float("inf"):
            heapq.heappush(self._promotions, (now + promoted_in, sequence.id, sequence))
        self.by_level[sequence.level].arrive(sequence)
        self._enqueue(sequence)

    def admit(self, sequence: Sequence) -> None:
        """Move a waiting sequence, which now holds blocks, to the running ones."""
        self.changes += 1
        queue = self.by_level[sequence.level]
        queue.remove(sequence)
        queue.run(sequence)
        sequence.state = SequenceState.PREFILL
        insort(self.running, sequence, key=by_order)

    def requeue(self, sequence: Sequence) -> None:
        """Move a running sequence, which has lost its blocks, back to its queue."""
        self.changes += 1
        self._remove_running(sequence)
        self.by_level[sequence.level].stop(sequence)
        sequence.evicted = True
        self._enqueue(sequence)

    def finish(self, sequence: Sequence) -> None:
        """Remove an unfinished sequence from wherever it is, and mark it FINISHED."""
        self.changes += 1
        if sequence.state is SequenceState.WAITING:
            self.by_level[sequence.level].remove(sequence)
        else:
            self._remove_running(sequence)
            self.by_level[sequence.level].stop(sequence)
        sequence.state = SequenceState.FINISHED
        self.promoted.discard(sequence)

    def extend(self, sequence: Sequence, tokens: Iterable[int]) -> None:
        """Append given ``tokens`` to a DECODE sequence; they are prefilled in chunks."""
        self.changes += 1
        begin = len(sequence.tokens)
        sequence.tokens += tokens
        sequence.given.append(range(begin, len(sequence.tokens)))
        sequence.draft = NO_DRAFT
        sequence.state = SequenceState.PREFILL

    def charge(self, sequence: Sequence, tokens: int) -> None:
        """Charge the app of a sequence for its next ``tokens``, which are computed now."""
        weight = 1.0 if sequence.needs_prefill else self._policy.sampled_token_weight
        self.by_level[sequence.level].charge(sequence, sequence.computed_tokens + tokens, weight)

    def promote_aged(self, now: float) -> None:
        """Promote unfinished background sequences whose promotion time has come (aging, §6.5).

        One decision promotes a few of them at most: a loop over thousands that came together would hold up a
        reactive kernel for longer than the quantum. A promoted sequence is first in its queue and in
        :attr:`Sequence.order` of its level. The kernel selector gives promoted work one kernel after every
        :attr:`Policy.promoted_stride` others.
        """
        for _ in range(MAX_CHANGES):
            if not self._promotions or self._promotions[0][0] > now:
                return
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
        """Return the unfinished sequences whose deadline has passed, each of them once, a few in one call."""
        expired = []
        for _ in range(MAX_CHANGES):
            if not self._deadlines or self._deadlines[0][0] > now:
                break
            sequence = heapq.heappop(self._deadlines)[2]
            if sequence.state is not SequenceState.FINISHED:
                expired.append(sequence)
        return expired

    def running_at(self, level: int) -> list[Sequence]:
        """The running sequences of a priority level, sorted by :attr:`Sequence.order`."""
        return [sequence for sequence in self.running if sequence.level == level]

    def decodes_fill_batch(self, level: int) -> bool:
        """Whether a batch of decodes of a level would be full, none of them served after its first prompt."""
        running, queue = self.running_at(level), self.by_level[level]
        decodes = [sequence for sequence in running if not sequence.needs_prefill]
        if len(decodes) < self._max_batch_size or not queue.is_shared:
            return len(decodes) >= self._max_batch_size
        prompts = [*(sequence for sequence in running if sequence.needs_prefill), *queue.first(1)]
        ordered = queue.in_order([*decodes, *sorted(prompts, key=self.key)])
        return not any(sequence.needs_prefill for sequence in ordered[: self._max_batch_size])

    def preceding(self, sequence: Sequence) -> int:
        """How many running sequences are served before ``sequence``, which waits."""
        queue = self.by_level[sequence.level]
        if not queue.is_shared:
            return bisect_left(self.running, sequence.order, key=by_order)
        more_urgent = sum(each.level < sequence.level for each in self.running)
        running = self.running_at(sequence.level)
        return more_urgent + len(running) - len(queue.behind(sequence, running))

    def yielding(self, sequence: Sequence) -> Iterator[Sequence]:
        """The running sequences that yield their blocks to ``sequence``, the last to be served first."""
        for level in reversed(self.by_level):
            running = self.running_at(level)
            if level > sequence.level:
                yield from reversed(self.by_level[level].in_order(running))
            elif level == sequence.level:
                yield from reversed(self.by_level[level].yielding(sequence, running))

    def check_integrity(self) -> None:
        """Check that every sequence is where its state says, and in order."""
        for level, queue in self.by_level.items():
            queue.check_integrity(self.running_at(level))
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
