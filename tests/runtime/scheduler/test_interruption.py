"""Kernels of background prompts that may be longer than the quantum because they can be interrupted."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.priority import Priority
from agentrt.runtime.heg.kernel import Role
from agentrt.runtime.scheduler.policy import POLICIES
from tests.hypothesis_profiles import examples
from tests.runtime.scheduler.machine import BLOCK, QUANTUM, Machine, policy

PROMPT = 96
"""Tokens that take more than a quantum in each of the four segments."""


def machine(**settings: Any) -> Machine:
    return Machine(**{"interruptible_s": 4 * QUANTUM, "max_chunk_tokens": PROMPT, "blocks": 256} | settings)


def test_kernels_of_background_prompts_alone_are_longer_than_the_quantum() -> None:
    alone = machine()
    alone.add(PROMPT, Priority.PROACTIVE)
    (kernel,) = alone.schedule()
    assert kernel.batch.interruptible
    assert QUANTUM < kernel.cost.seconds <= 4 * QUANTUM


def test_beside_reactive_work_of_another_engine_they_keep_the_quantum() -> None:
    two = machine()
    two.add(PROMPT, Priority.PROACTIVE)
    (kernel,) = two.scheduler.schedule(0.0, reactive_elsewhere=True)
    assert not kernel.batch.interruptible
    assert kernel.cost.seconds <= QUANTUM


@pytest.mark.parametrize(("kernels", "asked"), [(0, True), (1, True), (3, True), (1, False)])
def test_an_interrupted_kernel_runs_again_after_what_is_more_urgent(kernels: int, asked: bool) -> None:
    """Also where nothing more urgent came: the question was cancelled before the engine knew of it."""
    one = machine()
    background = one.add(PROMPT, Priority.PROACTIVE)
    for _ in range(kernels):
        one.step()
    interrupted = one.interrupt(0.01)
    if asked:
        one.until(one.add(5, answer=2))
    assert one.scheduler.statistics().preemptions == background.preemptions == asked
    again = one.step()
    assert again.scheduled.batch is interrupted.scheduled.batch
    assert again.scheduled.kernel is interrupted.scheduled.kernel
    one.until(background)


def test_a_paused_batch_with_long_kernels_is_built_anew_beside_reactive_work() -> None:
    """Promoted work gets a kernel beside reactive work, which must not wait for longer than the quantum."""
    one = machine(policy=policy(promote_after_s=0.05, promoted_stride=1))
    background = one.add(PROMPT, Priority.PROACTIVE)
    one.step()
    interrupted = one.interrupt(0.02)
    one.add(5, answer=60)
    before = len(one.log)
    one.until(background, first=True)
    later = [
        kernel.scheduled for kernel in one.log[before:] if background in kernel.scheduled.batch.sequences
    ]
    assert later[0].batch is not interrupted.scheduled.batch
    assert all(each.cost.seconds <= QUANTUM for each in later)


@pytest.mark.parametrize("between_s", [0.03, 0.1, 0.3])
def test_frequent_questions_do_not_starve_a_prompt(between_s: float) -> None:
    """Without aging: kernels keep the quantum until no question has come for a while."""
    one = machine(policy=policy(promote_after_s=float("inf")))
    background = one.add(4 * PROMPT, Priority.PROACTIVE)
    interruptions, asked = 0, 0.0
    while background not in one.first:
        one.schedule()
        kernel = one.running[Role.DECODE]
        if kernel.scheduled.batch.interruptible and one.now < asked + between_s < kernel.end:
            one.interrupt(asked + between_s - one.now)
            interruptions += 1
        else:
            one.step()
        if one.now >= asked + between_s:
            asked = one.now
            one.add(2, answer=1)
        assert one.now < 20
    assert interruptions <= 3


@pytest.mark.parametrize(("between_s", "long"), [(0.2, False), (1.0, True)])
def test_behind_a_question_kernels_are_long_where_questions_are_rare(between_s: float, long: bool) -> None:
    one = machine()
    for number in range(1, 5):
        while one.now < number * between_s:
            if not one.scheduler.queues.num_waiting:
                one.add(PROMPT, Priority.PROACTIVE)
            one.step()
        one.until(one.add(2, answer=3))
    one.add(PROMPT, Priority.PROACTIVE)
    (kernel,) = one.schedule()
    assert kernel.batch.is_background
    assert kernel.batch.interruptible is (kernel.cost.seconds > QUANTUM) is long


@pytest.mark.parametrize("quantum_s", [0.0005, QUANTUM])
def test_behind_reactive_work_only_kernels_beyond_the_quantum_are_interrupted(quantum_s: float) -> None:
    """A block takes 1 ms in each segment, so that no chunk can be within the shorter quantum."""
    one = machine(quantum_s=quantum_s)
    one.until(one.add(2, answer=1))
    one.add(PROMPT, Priority.PROACTIVE)
    (kernel,) = one.schedule()
    assert kernel.batch.interruptible is (kernel.cost.seconds > quantum_s) is (quantum_s != QUANTUM)


def test_a_block_is_computed_after_two_interruptions() -> None:
    """Behind reactive work it cannot be made shorter, and would be interrupted for ever."""
    one = machine(quantum_s=0.0005)
    one.until(one.add(2, answer=1))
    background = one.add(2 * BLOCK, Priority.PROACTIVE)
    for computed in (0, BLOCK):
        assert background.computed_tokens == computed
        for _ in range(2):
            one.interrupt(0.0001)
            one.until(one.add(2, answer=1))
        (kernel,) = one.schedule()
        assert kernel.batch.sequences == [background]
        assert not kernel.batch.interruptible
        while background.computed_tokens == computed:
            one.step()
    assert background.interruptions == 0


def test_a_chunk_that_begins_inside_a_block_is_not_interrupted() -> None:
    """Its keys are quantised with those before it in the block, and would be once more."""
    one = machine()
    sequence = one.add(3, Priority.PROACTIVE, answer=4, given=PROMPT)
    one.until(sequence)
    given = [each.scheduled for each in one.log if each.chunks[0].length > BLOCK]
    first = given[0]
    assert not first.batch.interruptible
    assert first.cost.seconds <= QUANTUM
    assert any(each.batch.interruptible for each in given), "behind the first whole block they are"


@pytest.mark.parametrize("name", [name for name in POLICIES if name != "agent-xpu"])
def test_schemes_that_do_not_preempt_between_kernels_interrupt_none(name: str) -> None:
    one = machine(policy=POLICIES[name])
    one.add(PROMPT, Priority.PROACTIVE)
    one.batches()
    assert not any(kernel.scheduled.batch.interruptible for kernel in one.log)


STEP = st.one_of(
    st.tuples(st.just("kernels"), st.integers(1, 6)),
    st.tuples(st.just("interrupt"), st.floats(0, 0.09)),
    st.tuples(st.just("reactive"), st.integers(1, 60)),
    st.tuples(st.just("proactive"), st.integers(1, 300)),
    st.tuples(st.just("cancel"), st.integers(0, 5)),
)


@pytest.mark.hypothesis
@examples(150)
@given(
    steps=st.lists(STEP, max_size=25),
    blocks=st.sampled_from([100, 140, 500]),
    given_tokens=st.sampled_from([0, 9]),
)
def test_everything_is_served_whatever_is_interrupted(
    steps: list[tuple[str, Any]], blocks: int, given_tokens: int
) -> None:
    one = machine(blocks=blocks, policy=policy(promote_after_s=0.3))
    alive = []
    for action, value in steps:
        if action == "kernels":
            for _ in range(value):
                one.step()
        elif action == "interrupt":
            one.schedule()
            for kernel in [each.scheduled for each in one.running.values()]:
                if kernel.batch.interruptible and len(kernel.kernel.segments) == 1:
                    assert not one.scheduler.queues.has_reactive_work or kernel.cost.seconds <= QUANTUM
                    one.interrupt(min(value, kernel.cost.seconds))
                else:
                    one.step()
        elif action == "cancel":
            if alive:
                one.scheduler.finish(alive.pop(value % len(alive)))
        else:
            priority = Priority.REACTIVE if action == "reactive" else Priority.PROACTIVE
            alive.append(one.add(value, priority, answer=3, given=given_tokens, app=b"app"))
        one.scheduler.check_integrity()
    one.batches(50_000)
    assert (one.scheduler.statistics().running, one.scheduler.statistics().waiting) == (0, 0)
    for kernel in one.log:
        batch = kernel.scheduled.batch
        if batch.is_background and not batch.interruptible:
            assert kernel.scheduled.cost.seconds <= max(QUANTUM, one.graph.indivisible_s(300)) + 1e-9
