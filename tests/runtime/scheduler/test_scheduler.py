from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from agentrt.priority import Priority
from agentrt.runtime.context import BlockPool
from agentrt.runtime.scheduler import Scheduler, Sequence, SequenceState, Slice

BLOCK = 4


def make(
    *, blocks: int = 64, batch: int = 8, chunk: int = 8
) -> tuple[Scheduler, BlockPool, Callable[..., Sequence]]:
    pool = BlockPool(blocks)
    scheduler = Scheduler(pool, block_tokens=BLOCK, max_batch_size=batch, prefill_chunk_tokens=chunk)
    arrived = 0

    def add(prompt: int, priority: Priority = Priority.REACTIVE) -> Sequence:
        nonlocal arrived
        sequence = Sequence(arrived, priority, list(range(prompt)))
        arrived += 1
        scheduler.add(sequence)
        return sequence

    return scheduler, pool, add


def run(scheduler: Scheduler) -> list[Slice]:
    """One step, as the engine does it: the next token of whoever sampled is its position."""
    step = scheduler.plan()
    scheduler.commit(step)
    for sequence, _, samples in step:
        if samples:
            sequence.tokens.append(len(sequence.tokens))
    scheduler.check_integrity()
    return step


def shape(step: list[Slice]) -> list[tuple[int, int, bool]]:
    return [(sequence.id, length, samples) for sequence, length, samples in step]


def test_a_prompt_in_chunks_then_one_token_at_a_time() -> None:
    scheduler, pool, add = make(chunk=8)
    sequence = add(18)
    assert sequence.state is SequenceState.WAITING
    assert shape(run(scheduler)) == [(0, 8, False)]
    assert sequence.state is SequenceState.PREFILL
    assert shape(run(scheduler)) == [(0, 8, False)]
    assert shape(run(scheduler)) == [(0, 2, True)]
    assert sequence.state is SequenceState.DECODE
    assert shape(run(scheduler)) == [(0, 1, True)]
    scheduler.finish(sequence)
    assert (sequence.state, pool.free, scheduler.plan()) == (SequenceState.FINISHED, 64, [])
    scheduler.finish(sequence)  # again changes nothing
    scheduler.check_integrity()


def test_chunks_end_on_block_boundaries() -> None:
    scheduler, _, add = make(chunk=9)  # rounded up to 12
    add(7)
    add(30)
    assert shape(run(scheduler)) == [(0, 7, True), (1, 4, False)]
    assert shape(run(scheduler)) == [(0, 1, True), (1, 12, False)]
    assert shape(run(scheduler)) == [(0, 1, True), (1, 12, False)]
    assert shape(run(scheduler)) == [(0, 1, True), (1, 2, True)]


def test_decodes_share_a_step_with_a_prompt_and_are_batched() -> None:
    scheduler, _, add = make()
    add(3)
    run(scheduler)
    add(20)
    assert shape(run(scheduler)) == [(0, 1, True), (1, 8, False)]
    run(scheduler)
    run(scheduler)
    assert shape(run(scheduler)) == [(0, 1, True), (1, 1, True)]


def test_reactive_first() -> None:
    scheduler, _, add = make()
    add(3, Priority.PROACTIVE)
    add(20, Priority.PROACTIVE)
    assert shape(run(scheduler)) == [(0, 3, True), (1, 4, False)]
    add(20, Priority.REACTIVE)
    # Its prompt takes the whole budget; the proactive decode rides along, the proactive prompt waits.
    assert shape(run(scheduler)) == [(2, 8, False), (0, 1, True)]
    run(scheduler)
    assert shape(run(scheduler)) == [(2, 4, True), (0, 1, True)]
    assert shape(run(scheduler)) == [(2, 1, True), (0, 1, True)], "reactive decodes are not lengthened either"


def test_among_equals_first_come_first_served() -> None:
    scheduler, _, add = make(batch=2)
    for _ in range(4):
        add(2)
    assert shape(run(scheduler)) == [(0, 2, True), (1, 2, True)]
    assert shape(run(scheduler)) == [(0, 1, True), (1, 1, True)]


def test_a_full_batch_makes_place_for_reactive_without_losing_blocks() -> None:
    scheduler, _, add = make(batch=2)
    background = [add(2, Priority.PROACTIVE) for _ in range(2)]
    run(scheduler)
    user = add(2, Priority.REACTIVE)
    assert shape(run(scheduler)) == [(2, 2, True), (0, 1, True)]
    assert background[1].blocks, "it only waits"
    assert scheduler.preemptions == 0
    scheduler.finish(user)
    assert shape(run(scheduler)) == [(0, 1, True), (1, 1, True)]


def test_a_full_arena_takes_the_blocks_of_the_last_proactive_one() -> None:
    scheduler, pool, add = make(blocks=7, chunk=16)
    first, last = add(8, Priority.PROACTIVE), add(8, Priority.PROACTIVE)
    run(scheduler)
    assert pool.free == 3
    user = add(13, Priority.REACTIVE)
    assert shape(run(scheduler)) == [(2, 13, True), (0, 1, True)]
    assert (first.state, last.state) == (SequenceState.DECODE, SequenceState.WAITING)
    assert (last.blocks, last.computed, len(last.tokens), scheduler.preemptions) == ([], 0, 9, 1)
    scheduler.finish(user)
    # It starts again: the prompt as before, then the sampled token by itself, and only then a new one.
    assert shape(run(scheduler)) == [(0, 1, True), (1, 8, False)]
    assert shape(run(scheduler)) == [(0, 1, True), (1, 1, True)]


def test_a_preempted_sequence_repeats_its_tokens_one_by_one() -> None:
    scheduler, _, add = make(blocks=4, chunk=16)
    sequence = add(6, Priority.PROACTIVE)
    for _ in range(5):
        run(scheduler)
    user = add(16, Priority.REACTIVE)
    run(scheduler)
    assert sequence.state is SequenceState.WAITING
    tokens = list(sequence.tokens)
    scheduler.finish(user)
    steps = [run(scheduler) for _ in range(6)]
    assert [shape(step)[0][1:] for step in steps] == [
        (6, False), (1, False), (1, False), (1, False), (1, False), (1, True),
    ]  # fmt: skip
    assert sequence.tokens[:-1] == tokens


def test_growing_sequences_preempt_the_last_one_and_all_finish() -> None:
    scheduler, pool, add = make(blocks=5, chunk=32)
    sequences = [add(5) for _ in range(3)]
    finished = []
    for _ in range(200):
        run(scheduler)
        for sequence in sequences:
            if len(sequence.tokens) >= 18 and sequence.state is not SequenceState.FINISHED:
                finished.append(sequence.id)
                scheduler.finish(sequence)
    assert finished == [0, 1, 2]
    assert pool.free == 5
    assert scheduler.preemptions > 0


def test_admission_leaves_room_to_grow() -> None:
    scheduler, _, add = make(blocks=4, chunk=32)
    add(8)
    run(scheduler)
    late = add(4)
    run(scheduler)
    assert late.state is SequenceState.WAITING, "the last block is the first sequence's next one"


@pytest.mark.parametrize("seed", range(5))
def test_ten_thousand_waiting_are_served_in_order(seed: int) -> None:
    rng = random.Random(seed)
    scheduler, pool, add = make(blocks=32, batch=8)
    sequences = [add(rng.choice([4, 8, 12]), rng.choice(list(Priority))) for _ in range(10_000)]
    assert scheduler.waiting == 10_000
    first: list[tuple[int, int]] = []
    while step := scheduler.plan():
        scheduler.commit(step)
        for sequence, _, samples in step:
            if samples:
                first.append(sequence.order)
                scheduler.finish(sequence)
        if len(first) > 300:
            break
    assert [priority for priority, _ in first] == [Priority.REACTIVE] * len(first)
    assert first == sorted(sequence.order for sequence in sequences)[: len(first)]
    assert pool.free + sum(len(s.blocks) for s in sequences) == 32


class SchedulerMachine(RuleBasedStateMachine):
    """Any interleaving of arrivals, steps, endings and cancellations, in an arena that is too small."""

    BLOCKS = 7
    BATCH = 3

    def __init__(self) -> None:
        super().__init__()
        self.scheduler, self.pool, self.add = make(blocks=self.BLOCKS, batch=self.BATCH, chunk=8)
        self.alive: list[Sequence] = []
        self.written: dict[int, list[tuple[int, int]]] = {}

    @rule(prompt=st.integers(1, BLOCKS * BLOCK - 1), priority=st.sampled_from(Priority))
    def arrive(self, prompt: int, priority: Priority) -> None:
        self.alive.append(self.add(prompt, priority))

    @precondition(lambda self: self.alive)
    @rule()
    def step(self) -> None:
        alive = sorted(self.alive, key=lambda s: s.order)
        before = {s.id: s.computed for s in alive}
        step = self.scheduler.plan()
        assert step, "something is alive, so something runs"
        assert step[0].sequence is alive[0], "the first in the order always advances"
        orders = [s.order for s, _, _ in step]
        assert orders == sorted(set(orders)), "in order, nobody twice"
        assert len(step) <= self.BATCH
        assert sum(length for s, length, _ in step if s.computed < s.prompt_tokens) <= 8
        for sequence, length, samples in step:
            start, end = sequence.computed, sequence.computed + length
            assert start in (before[sequence.id], 0)
            assert length > 0
            assert end <= len(sequence.blocks) * BLOCK
            assert samples == (end == len(sequence.tokens))
            if start < sequence.prompt_tokens:
                assert start % BLOCK == 0
                assert end == sequence.prompt_tokens or end % BLOCK == 0
                if alive[0].priority is Priority.REACTIVE:
                    assert sequence.priority is Priority.REACTIVE, "a proactive prompt delays a reactive one"
            else:
                assert length == 1
        self.scheduler.commit(step)
        for sequence, _, samples in step:
            if samples:
                sequence.tokens.append(0)
                if len(sequence.tokens) == self.BLOCKS * BLOCK:
                    self.end(sequence)

    @precondition(lambda self: self.alive)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        self.end(data.draw(st.sampled_from(self.alive)))

    def end(self, sequence: Sequence) -> None:
        self.scheduler.finish(sequence)
        assert sequence.state is SequenceState.FINISHED
        assert not sequence.blocks
        self.alive.remove(sequence)

    @invariant()
    def nothing_is_lost(self) -> None:
        self.scheduler.check_integrity()
        assert self.scheduler.waiting + self.scheduler.running == len(self.alive)
        assert self.pool.free == self.BLOCKS - sum(len(s.blocks) for s in self.alive)

    def teardown(self) -> None:
        # Left alone, everything ends.
        for _ in range(10_000):
            if not self.alive:
                break
            self.step()
        assert not self.alive
        assert self.pool.free == self.BLOCKS


TestScheduler = SchedulerMachine.TestCase
TestScheduler.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
