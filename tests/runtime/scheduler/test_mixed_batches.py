"""Batches of prompt chunks and decodes at once, batches of all sequences, and batches that are dropped."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.priority import Priority
from agentrt.runtime.scheduler.batch import Stage
from agentrt.runtime.scheduler.batch_builder import BatchBuilder
from agentrt.runtime.scheduler.policy import POLICIES
from agentrt.runtime.scheduler.scheduler import Scheduler
from agentrt.runtime.scheduler.sequence import Sequence, SequenceState
from tests.hypothesis_profiles import examples
from tests.runtime.scheduler.machine import BLOCK, Machine, policy

PROACTIVE, REACTIVE = Priority.PROACTIVE, Priority.REACTIVE


@pytest.mark.parametrize(
    ("priority", "interruptible_s"), [(PROACTIVE, None), (REACTIVE, None), (REACTIVE, 0.1)]
)
def test_prompts_and_decodes_share_mixed_batches(priority: Priority, interruptible_s: float | None) -> None:
    machine = Machine(batch=16, interruptible_s=interruptible_s)
    decoding = [machine.add(2, priority, answer=20) for _ in range(3)]
    machine.decode(decoding)
    begun = len(machine.log)
    machine.until(machine.add(40, priority), first=True)
    mixed = [kernel for kernel in machine.log[begun:] if kernel.scheduled.kernel.index == 0]
    assert {kernel.scheduled.batch.stage for kernel in mixed} == {Stage.MIXED}
    # A batch holds 16 tokens, those of the decodes among them, and whole blocks of 4 of a prompt.
    assert [[chunk.length for chunk in kernel.chunks] for kernel in mixed] == [[1, 1, 1, 12]] * 3 + [
        [1, 1, 1, 4]
    ]


def test_background_joins_decodes_beside_a_reactive_prompt_that_waits_for_memory() -> None:
    machine = Machine(blocks=16, batch=16)
    background = machine.add(2, PROACTIVE, answer=20)
    machine.until(background, first=True)
    user = machine.add(40, answer=4)
    machine.until(user, first=True)
    waiting = machine.add(36, answer=1)
    kernel = machine.step()
    assert waiting.state is SequenceState.WAITING
    assert kernel.ids == [user.id, background.id]


def test_a_reactive_prompt_is_not_mixed_where_its_smallest_chunk_would_take_too_long() -> None:
    machine = Machine(batch=16, policy=policy(reactive_kernel_s=0.005, reactive_pass_s=0.0), quantum_s=0.005)
    machine.until(machine.add(2, answer=20), first=True)
    machine.until(machine.add(40), first=True)
    assert Stage.MIXED not in {kernel.scheduled.batch.stage for kernel in machine.log}


@pytest.mark.parametrize("name", ["fcfs-disaggregated", "preempt-restart", "time-share"])
def test_schemes_with_batches_of_their_own_for_prompts_mix_none(name: str) -> None:
    machine = Machine(batch=16, policy=POLICIES[name])
    for priority in (REACTIVE, PROACTIVE):
        machine.until(machine.add(2, priority, answer=9), first=True)
        machine.add(40, priority)
    machine.batches()
    assert Stage.MIXED not in {kernel.scheduled.batch.stage for kernel in machine.log}


def test_no_mixed_batches_beside_reactive_work() -> None:
    machine = Machine(policy=policy(promote_after_s=0.0), batch=16)
    decoding = machine.add(2, PROACTIVE, answer=30)
    machine.until(decoding, first=True)
    machine.add(2, answer=60)
    machine.add(40, PROACTIVE)
    begun = len(machine.log)
    machine.until(decoding)
    assert Stage.MIXED not in {kernel.scheduled.batch.stage for kernel in machine.log[begun:]}


def test_decodes_of_an_evicted_mixed_batch_rewrite_their_block_from_its_start() -> None:
    """A layer had its keys quantised with the token's: writing it again in place would change them."""
    machine = Machine(blocks=16)
    decoding = machine.add(6, PROACTIVE, answer=8)
    machine.until(decoding, first=True)
    prompt = machine.add(40, PROACTIVE, answer=1)
    machine.step()
    mixed = machine.log[-1].scheduled.batch
    assert (mixed.stage, mixed.context.position) == (Stage.MIXED, 1)
    user = machine.add(24, answer=1)
    started = len(machine.log)
    machine.until(user)
    assert prompt.state is SequenceState.WAITING, (
        "its blocks went to the user's prompt, and the batch with it"
    )
    assert decoding.blocks
    machine.until(decoding)
    again = [kernel for kernel in machine.log[started:] if decoding.id in kernel.ids]
    first = next(chunk for chunk in again[0].chunks if chunk.sequence is decoding)
    assert (first.length, first.samples) == (2, False), "tokens 4 and 5 were written together"


def test_preempted_mixed_batch_resumes_before_other_work_of_its_level() -> None:
    machine = Machine(batch=16)
    decoding = machine.add(2, PROACTIVE, answer=9)
    machine.until(decoding, first=True)
    machine.add(40, PROACTIVE)
    preempted = machine.schedule()[0].batch
    assert preempted.stage is Stage.MIXED
    user = machine.add(8, answer=2)
    machine.add(1, PROACTIVE)
    machine.until(user)
    assert (preempted.context.position, len(preempted.context.kernels)) == (1, 2)
    assert machine.schedule()[0].batch is preempted


def paused_mixed_batch(*, quantised_keys: bool) -> tuple[Machine, list[Sequence]]:
    """Return a machine between two kernels of two background decodes, inside a block, and a prompt."""
    machine = Machine(blocks=16, state_rows=9, quantised_keys=quantised_keys)
    sequences = [machine.add(5, PROACTIVE, answer=9) for _ in range(2)]
    while any(sequence.needs_prefill for sequence in sequences):
        machine.step()
    sequences.append(machine.add(12, PROACTIVE))
    kernel = machine.step()
    while kernel is not None and (len(kernel.chunks) < 3 or kernel.ends_batch):
        kernel = machine.step()
    assert all(sequence.computed_tokens % 4 for sequence in sequences[:2])
    return machine, sequences


@pytest.mark.parametrize("quantised_keys", [True, False])
def test_a_reactive_prompt_takes_the_blocks_of_two_of_them(quantised_keys: bool) -> None:
    """It evicts the prompt, which drops the batch, and one of the decodes."""
    machine, (first, second, prompt) = paused_mixed_batch(quantised_keys=quantised_keys)
    urgent = machine.add(52)
    machine.schedule()
    assert urgent.state is SequenceState.PREFILL
    assert (second.state, prompt.state) == (SequenceState.WAITING, SequenceState.WAITING)
    # Quantised keys of the block it was in must be written again from its first token, whose state is lost.
    assert (first.state is SequenceState.WAITING) == quantised_keys
    for sequence in (urgent, first, second, prompt):
        machine.until(sequence)
    assert machine.scheduler.statistics().waiting == machine.scheduler.statistics().running == 0


class Request(NamedTuple):
    steps: int
    """Kernels that end before it arrives."""
    prompt: int
    answer: int
    priority: Priority
    app: bytes
    drafts: tuple[bool, ...]
    given: int
    deadline_s: float | None
    cancels: bool
    """Whether the oldest request is cancelled when it arrives."""


REQUESTS = st.lists(
    st.builds(
        Request,
        st.integers(0, 40),
        st.integers(1, 40),
        st.integers(1, 40),
        st.sampled_from(Priority),
        st.sampled_from([b"mail", b"chat"]),
        st.sampled_from([(), (), (True,), (True, False)]),
        st.sampled_from([0, 0, 5]),
        st.sampled_from([None, None, 0.5]),
        st.booleans(),
    ),
    min_size=1,
    max_size=8,
)


def history(name: str, requests: list[Request], blocks: int, batch: int) -> list[tuple[float, int, object]]:
    """Serve ``requests``; return when each kernel started, its place in the batch, and the batch's chunks."""
    machine = Machine(blocks=blocks, batch=batch, policy=replace(POLICIES[name], promote_after_s=0.3))
    alive: list[Sequence] = []
    for request in requests:
        for _ in range(request.steps):
            machine.step()
            machine.scheduler.expire(machine.now)
        if request.cancels and alive:
            machine.scheduler.finish(alive.pop(0))
        alive.append(
            machine.add(
                request.prompt,
                request.priority,
                answer=request.answer,
                app=request.app,
                drafts=request.drafts,
                given=request.given,
                deadline=None if request.deadline_s is None else machine.now + request.deadline_s,
            )
        )
    machine.batches(50_000)
    return [
        # Apps that share a batch swap places in it, by which nothing is computed otherwise.
        (kernel.start, kernel.scheduled.kernel.index, sorted((c.sequence.id, *c[1:]) for c in kernel.chunks))
        for kernel in machine.log
    ]


@pytest.mark.hypothesis
@pytest.mark.parametrize("name", POLICIES)
def test_the_kernels_are_those_of_a_search_before_each(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    @examples(40)
    @given(requests=REQUESTS, blocks=st.sampled_from([24, 40, 500]), batch=st.integers(1, 5))
    def holds(requests: list[Request], blocks: int, batch: int) -> None:
        served = history(name, requests, blocks, batch)
        with monkeypatch.context() as patched:
            patched.setattr(Scheduler, "_note_only_batch", lambda self, scheduled: None)
            assert served == history(name, requests, blocks, batch)

    holds()


def test_decodes_of_the_same_sequences_are_not_searched_for(monkeypatch: pytest.MonkeyPatch) -> None:
    searches: list[float] = []
    start_batch = BatchBuilder.start_batch

    def counted(self: BatchBuilder, *arguments: object) -> object:
        searches.append(machine.now)
        return start_batch(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(BatchBuilder, "start_batch", counted)
    machine = Machine()
    first = machine.add(3, answer=40)
    machine.add(5, answer=40)
    machine.until(first, first=True)
    machine.step()
    before = len(searches)
    for _ in range(30):  # in which both sequences get further blocks
        machine.step()
    assert len(searches) == before
    later = machine.add(2, answer=2)
    machine.until(later)
    assert len(searches) > before, "with a third sequence there is something to select"


@given(st.integers(0, 40), st.integers(2, 60), st.integers(1, 40))
def test_where_keys_are_not_quantised_no_chunk_has_or_leaves_one_token(
    computed: int, left: int, budget: int
) -> None:
    builder = Machine(quantised_keys=False).scheduler._builder
    prompt: Any = SimpleNamespace(computed_tokens=computed, prefill_end=computed + left)
    length = builder._chunk_length(prompt, budget)
    assert 0 <= length <= min(left, budget)
    assert length != 1
    assert left - length != 1
    assert length or budget < BLOCK, "the first chunk of a batch, which has a block's budget, advances"
