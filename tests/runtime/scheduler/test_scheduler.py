from __future__ import annotations

import itertools
import random
from dataclasses import replace
from typing import Any

import pytest

from agentrt.priority import Priority
from agentrt.runtime.heg.kernel import BatchContext, BatchShape, Kernel, KernelKind, Role
from agentrt.runtime.heg.profile import KernelCost
from agentrt.runtime.scheduler.batch import Batch, Stage, inputs_of
from agentrt.runtime.scheduler.launch_decision import LaunchDecision, ScheduledKernel, decide_launch
from agentrt.runtime.scheduler.policy import POLICIES, Policy
from agentrt.runtime.scheduler.queues import MAX_CHANGES
from agentrt.runtime.scheduler.sequence import Sequence, SequenceState
from tests.runtime.scheduler import machine as machines
from tests.runtime.scheduler.machine import BLOCK, QUANTUM, Machine, policy

PROACTIVE, REACTIVE = Priority.PROACTIVE, Priority.REACTIVE


def test_prompt_is_prefilled_in_chunks_then_decoded() -> None:
    machine = Machine()
    sequence = machine.add(37, answer=3)
    assert sequence.state is SequenceState.WAITING
    assert machine.batches() == [
        [(0, 16, False)],
        [(0, 16, False)],
        [(0, 5, True)],
        [(0, 1, True)],
        [(0, 1, True)],
    ]
    assert (sequence.state, machine.pool.free) == (SequenceState.FINISHED, 64)
    machine.scheduler.finish(sequence)  # again changes nothing
    machine.scheduler.check_integrity()


def test_chunks_end_on_block_boundaries_and_short_prompts_share_a_batch() -> None:
    machine = Machine()
    machine.add(7, answer=1)
    machine.add(30, answer=1)
    assert machine.batches() == [[(0, 7, True), (1, 8, False)], [(1, 16, False)], [(1, 6, True)]]


@pytest.mark.parametrize(
    ("priority", "longest_s", "pass_s", "chunk"),
    [
        (PROACTIVE, 0.1, 0.0, 12),
        (REACTIVE, 0.1, 0.0, 16),
        (REACTIVE, 0.005, 0.0, 12),
        (REACTIVE, 0.0, 0.03, 12),
        (REACTIVE, 0.0, 0.07, 16),
    ],
)
def test_quantum_limits_only_kernels_of_background_prompts(
    priority: Priority, longest_s: float, pass_s: float, chunk: int
) -> None:
    # A layer takes 8.5 ms for 12 tokens and 16 ms for 16, four layers 34 and 64 ms.
    machine = Machine(quantum_s=0.01, policy=policy(reactive_kernel_s=longest_s, reactive_pass_s=pass_s))
    machine.add(48, priority, answer=1)
    assert [[chunk[1] for chunk in batch] for batch in machine.batches()] == [[chunk]] * (48 // chunk)


def test_reactive_preempts_between_two_kernels_and_nothing_is_recomputed() -> None:
    machine = Machine()
    background = machine.add(16, PROACTIVE, answer=1)
    machine.step()
    machine.schedule()  # the second layer of the background prompt runs now
    running = machine.running[Role.DECODE]
    user = machine.add(8, answer=1)
    added_at = machine.now
    assert machine.until(user) == pytest.approx(running.end + 0.004), "one kernel, then its own four layers"
    assert machine.now - added_at <= QUANTUM + 0.004
    assert machine.scheduler.statistics().preemptions == 1
    assert (background.preemptions, user.preemptions) == (1, 0)
    machine.until(background)
    layers = [kernel.scheduled.kernel.layers.start for kernel in machine.log if kernel.ids == [background.id]]
    assert layers == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("settings", "prompt", "waiting", "joined"),
    [
        # Eight sequences decode as fast as one here, a ninth costs more.
        ({}, 2, 10, 7),
        # A step of the user alone takes 5 ms here, and each 256 tokens of past 1 ms more.
        ({"blocks": 1024, "read_s": 1e-6}, 300, 4, 1),
    ],
)
def test_background_decodes_are_backfilled_up_to_b_max(
    settings: dict[str, Any], prompt: int, waiting: int, joined: int
) -> None:
    machine = Machine(batch=16, **settings)
    background = [machine.add(prompt, PROACTIVE, answer=500) for _ in range(waiting)]
    machine.decode(background)
    user = machine.add(2, answer=50)
    machine.until(user, first=True)
    assert machine.step().ids == [user.id, *(sequence.id for sequence in background[:joined])]


def test_reactive_prompts_delay_reactive_decodes_at_most_by_the_gap() -> None:
    machine = Machine(policy=policy(reactive_decode_gap_s=0.05))
    first = machine.add(2, answer=40)
    machine.until(first, first=True)
    machine.add(160, answer=1)
    times = []
    while first not in machine.done:
        length = len(first.tokens)
        machine.step()
        if len(first.tokens) > length:
            times.append(machine.now)
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert max(gaps) <= 0.05 + QUANTUM + 0.004 + 1e-9
    assert max(gaps) > 0.03, "prompts do go first"


def test_shortest_background_prompt_is_first_unless_another_is_promoted() -> None:
    machine = Machine(policy=policy(promote_after_s=0.5))
    long = machine.add(160, PROACTIVE, answer=1)
    short = machine.add(20, PROACTIVE, answer=1)
    machine.until(short)
    assert long not in machine.first
    machine.until(long, first=True)

    machine = Machine(policy=policy(promote_after_s=0.5))
    old = machine.add(160, PROACTIVE, answer=1)
    while old not in machine.done:
        machine.add(20, PROACTIVE, answer=1)
        machine.step()
    assert machine.done[old] < 3


def test_a_decision_promotes_a_few_of_many_that_came_together() -> None:
    machine = Machine(policy=policy(promote_after_s=1.0))
    came = [machine.add(20, PROACTIVE) for _ in range(1000)]
    queues = machine.scheduler.queues
    for promoted in range(MAX_CHANGES, 1000, MAX_CHANGES):
        queues.promote_aged(2.0)
        assert queues.promoted == set(came[:promoted])
    queues.promote_aged(2.0)
    assert queues.promoted == set(came)
    queues.check_integrity()


@pytest.mark.parametrize("xpus", [1, 2])
def test_endless_reactive_load_does_not_starve_background_prompts(xpus: int) -> None:
    machine = Machine(xpus=xpus, policy=policy(promote_after_s=1.0))
    old = machine.add(64, PROACTIVE, answer=2)
    user = machine.add(16, answer=2)
    while old not in machine.done:
        if user in machine.done:
            user = machine.add(16, answer=2)
        machine.step()
        assert machine.now < 5, "promoted after 1 s, it needs about 0.3 s, and gets every eighth kernel"
    kernels = [kernel for kernel in machine.log if kernel.start > 1]
    assert sum(old.id in kernel.ids for kernel in kernels) <= len(kernels) / 2, "it does not take over"


def test_backfilled_promoted_decodes_do_not_delay_a_promoted_prompt() -> None:
    machine = Machine(policy=policy(promote_after_s=0.1))
    riding = machine.add(2, PROACTIVE, answer=1000)
    machine.until(riding, first=True)
    prompt = machine.add(16, PROACTIVE, answer=1)
    user = machine.add(2, answer=1000)
    machine.until(prompt)
    assert riding not in machine.done
    assert user not in machine.done
    others = [kernel.scheduled.batch.level for kernel in machine.log if kernel.start > 0.2]
    assert not any(one and two for one, two in itertools.pairwise(others)), "never two in a row"


def test_a_decision_ends_a_few_of_many_with_one_deadline() -> None:
    machine = Machine()
    came = [machine.add(20, PROACTIVE, deadline=1.0) for _ in range(1000)]
    scheduler, ended = machine.scheduler, []
    while expired := scheduler.expire(2.0):
        assert len(expired) <= MAX_CHANGES
        assert len(ended) + len(expired) == 1000 or scheduler.next_timeout() <= 2.0, (
            "the engine goes on at once"
        )
        ended += expired
    assert ended == came
    scheduler.check_integrity()


def test_a_hung_kernel_costs_only_the_blocks_that_it_was_writing() -> None:
    """The block before them is computed again, so that no token of the prompt is left alone, and is sound."""
    machine = Machine(quantised_keys=False)
    sequence = machine.add(3 * BLOCK + 1, app=b"one")
    machine.decode([sequence])
    machine.schedule()
    (kernel,) = machine.running.values()
    assert (sequence.computed_tokens, kernel.chunks[0].length) == (3 * BLOCK + 1, 1)
    machine.running.clear()
    assert machine.scheduler.fail_kernel(Role.DECODE, hung=True) == []
    assert machine.scheduler.usable_tokens == (machine.blocks - 1) * BLOCK
    machine.scheduler.check_integrity()
    machine.until(sequence)


def branching(quantised_keys: bool) -> tuple[Machine, Sequence, machines.Kernel]:
    """A machine in the middle of a decode with two branches beside its draft."""
    machine = Machine(quantised_keys=quantised_keys, free_tokens=16)
    sequence = machine.add(2 * BLOCK + 1, app=b"one", answer=30, drafts=(False, True))
    machine.decode([sequence])
    machine.schedule()
    (kernel,) = machine.running.values()
    token = 2 * BLOCK + 1
    assert [branch.tokens for branch in kernel.chunks[0].branches] == [
        (token + 1, -1),
        (token + 1, token + 2),
    ]
    return machine, sequence, kernel


@pytest.mark.parametrize("quantised_keys", [False, True])
def test_a_branch_shares_the_complete_blocks_and_is_taken_with_its_own(quantised_keys: bool) -> None:
    machine, sequence, kernel = branching(quantised_keys)
    chunk = kernel.chunks[0]
    before, taken = list(sequence.blocks), chunk.branches[1]
    inputs = inputs_of([chunk], drafts_alone=not quantised_keys)
    at = 2 * BLOCK + 1
    assert inputs.token_ids == [at, -1, at + 2, *(at, at + 1, -1), *(at, at + 1, at + 2)]
    assert inputs.position_ids == [at, at + 1, at + 2] * 3
    assert inputs.sampled_rows == [0, 1, 2, 4, 5, 7, 8]
    assert inputs.block_copies == [(before[2], branch.blocks[0]) for branch in chunk.branches]
    assert inputs.block_tables[-1] == [*before[:2], *taken.blocks]
    shape = kernel.scheduled.batch.context.shape
    assert inputs.shape._replace(past_tokens=0) == shape._replace(past_tokens=0)
    machine.step()
    assert sequence.blocks[:3] == [*before[:2], *taken.blocks]
    assert len(sequence.tokens) == at + 4 == sequence.computed_tokens + 1
    assert len(sequence.blocks) * BLOCK == at + 3, "those of the other paths are free"
    machine.until(sequence)
    assert machine.pool.free == machine.blocks


@pytest.mark.parametrize("hung", [False, True])
def test_a_kernel_that_fails_costs_the_blocks_of_its_branches(hung: bool) -> None:
    machine, sequence, kernel = branching(quantised_keys=True)
    machine.running.clear()
    assert machine.scheduler.fail_kernel(Role.DECODE, hung=hung) == []
    written = 1 + len(kernel.chunks[0].branches)
    assert machine.scheduler.usable_tokens == (machine.blocks - written * hung) * BLOCK
    machine.until(sequence)
    machine.scheduler.check_integrity()


def test_deadline_promotes_then_finishes_a_sequence() -> None:
    machine = Machine(policy=policy(promote_after_s=100.0))
    sequence = machine.add(160, PROACTIVE, answer=1, deadline=0.4)
    user = machine.add(16, answer=100)
    while machine.now < 0.4:
        machine.step()
    assert sequence.computed_tokens > 0, "half of its time was over"
    assert machine.scheduler.expire(machine.now) == [sequence]
    assert (sequence.state, machine.scheduler.expire(machine.now)) == (SequenceState.FINISHED, [])
    machine.until(user)
    assert machine.pool.free == machine.pool.total


def test_equals_are_served_by_arrival() -> None:
    machine = Machine(batch=2)
    for _ in range(4):
        machine.add(2, answer=2)
    assert machine.batches() == [
        [(0, 2, True), (1, 2, True)],
        [(0, 1, True), (1, 1, True)],
        [(2, 2, True), (3, 2, True)],
        [(2, 1, True), (3, 1, True)],
    ]


def test_full_arena_evicts_the_last_background_sequence() -> None:
    machine = Machine(blocks=7)
    first, last = machine.add(8, PROACTIVE, answer=9), machine.add(8, PROACTIVE, answer=9)
    machine.until(last, first=True)
    user = machine.add(13, answer=2)
    machine.until(user)
    assert (first.state, last.state) == (SequenceState.DECODE, SequenceState.WAITING)
    assert machine.scheduler.statistics().evictions == 1
    assert [each.evictions for each in (first, last, user)] == [0, 1, 0]
    machine.until(first)
    machine.until(last)


def test_evicted_sequence_recomputes_sampled_tokens_one_by_one() -> None:
    machine = Machine(blocks=4)
    sequence = machine.add(6, PROACTIVE, answer=6)
    for _ in range(5):
        machine.step()
    tokens = list(sequence.tokens)
    assert len(tokens) == 11
    machine.until(machine.add(15, answer=1))
    machine.log.clear()
    assert machine.batches()[:6] == [
        [(0, 6, False)],
        *[[(0, 1, False)]] * 4,
        [(0, 1, True)],
    ]
    assert sequence.tokens[:11] == tokens


def test_admission_leaves_blocks_for_sequences_ahead() -> None:
    machine = Machine(blocks=3)
    machine.add(8, answer=4)
    machine.step()
    late = machine.add(4)
    machine.step()
    assert late.state is SequenceState.WAITING, "the last block is the first sequence's next one"


def test_sequence_finished_in_a_running_kernel_keeps_its_blocks_until_it_ends() -> None:
    machine = Machine()
    sequence = machine.add(16)
    machine.schedule()
    machine.scheduler.finish(sequence)
    machine.scheduler.check_integrity()
    assert machine.pool.free == 60
    machine.step()
    assert machine.pool.free == 64
    assert machine.step() is None, "the rest of its batch is not computed"


def test_sequence_finished_in_a_preempted_batch_drops_it_at_once() -> None:
    machine = Machine()
    sequence = machine.add(16, PROACTIVE)
    machine.step()
    batch = machine.scheduler._batches.containing(sequence)
    machine.scheduler.finish(sequence)
    assert machine.pool.free == 64
    assert machine.scheduler.take_dropped_contexts() == [batch.context]


def test_overload_sheds_the_last_waiting_sequence() -> None:
    machine = Machine(policy=policy(max_waiting=3))
    kept = [machine.add(4, PROACTIVE), machine.add(9, PROACTIVE)]
    longest = machine.add(30, PROACTIVE)
    assert not machine.given_up
    user = machine.add(5)
    assert machine.given_up == [longest]
    assert longest.state is SequenceState.FINISHED
    refused = machine.add(50, PROACTIVE)
    assert machine.given_up == [longest, refused]
    for sequence in [*kept, user]:
        machine.until(sequence)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_ten_thousand_waiting_are_served_in_order(seed: int) -> None:
    rng = random.Random(seed)
    machine = Machine(blocks=32)
    sequences = [
        machine.add(rng.choice([4, 8, 12]), rng.choice(list(Priority)), answer=1) for _ in range(10_000)
    ]
    assert machine.scheduler.statistics().waiting == 10_000
    scheduler = machine.scheduler
    served: list[int] = []
    while len(served) < 300:
        for decision in scheduler.schedule(0.0):
            completed = scheduler.complete_kernel(decision.role, 0.0)
            for chunk in completed.chunks if completed else ():
                if chunk.samples:
                    served.append(chunk.sequence.id)
                    scheduler.finish(chunk.sequence)
    assert served == [sequence.id for sequence in sequences if sequence.priority is REACTIVE][: len(served)]
    scheduler.check_integrity()


class TestTwoXPUs:
    def test_whole_chunks_are_split_between_them(self) -> None:
        machine = Machine(xpus=2)
        machine.add(20, answer=1)
        machine.batches()
        kinds = [(kernel.scheduled.role, kernel.scheduled.kernel.kind) for kernel in machine.log]
        assert kinds[:3] == [
            (Role.PREFILL, KernelKind.TOKENS),
            (Role.DECODE, KernelKind.ATTENTION),
            (Role.PREFILL, KernelKind.TOKENS),
        ]
        assert kinds[-1] == (Role.DECODE, KernelKind.LAYERS), "the margin is dynamic"

    def test_decodes_with_the_tokens_of_a_static_chunk_run_where_decodes_do(self) -> None:
        machine = Machine(xpus=2, batch=16)
        for _ in range(16):
            machine.add(2, answer=9)
        assert max(map(len, machine.batches())) == 16
        decodes = [k.scheduled for k in machine.log if k.scheduled.batch.stage is Stage.DECODE]
        assert {kernel.role for kernel in decodes} == {Role.DECODE}

    def test_background_prefill_runs_beside_reactive_decode(self) -> None:
        machine = Machine(xpus=2, decode_share=0.3)
        user = machine.add(2, answer=100)
        machine.until(user, first=True)
        background = machine.add(32, PROACTIVE, answer=1)
        alone = machine.now
        tokens = len(user.tokens)
        machine.until(background, first=True)
        assert user not in machine.done
        beside = [k for k in machine.log if k.start >= alone and k.scheduled.role is Role.PREFILL]
        assert {kernel.scheduled.batch.level for kernel in beside} == {int(PROACTIVE)}
        assert len(user.tokens) - tokens > 10

    @pytest.mark.parametrize("priority", Priority)
    def test_both_compute_one_prompt(self, priority: Priority) -> None:
        """An XPU has 16 tokens of a layer computed in 8 ms, the other 8 tokens."""
        machine = Machine(xpus=2, decode_share=0.3)
        prompt = machine.add(64, priority, answer=1)
        assert machine.batches() == [[(0, 24, False)], [(0, 24, False)], [(0, 16, True)]]
        starts = [k.start for k in machine.log if k.scheduled.batch.contexts[1:]]
        busy = {role: [k for k in machine.log if k.scheduled.role is role] for role in Role}
        beside = sum(
            min(one.end, two.end) - max(one.start, two.start)
            for one in busy[Role.PREFILL]
            for two in busy[Role.DECODE]
            if one.start < two.end and two.start < one.end
        )
        assert starts, "one chunk has kernels of two contexts"
        assert beside == pytest.approx(2 * 3 * 0.001), "all layers of two chunks but the last"
        assert prompt in machine.done

    def test_one_computes_a_prompt_while_others_as_urgent_decode(self) -> None:
        machine = Machine(xpus=2, decode_share=0.3)
        machine.until(machine.add(2, answer=40), first=True)
        user = machine.add(64, answer=1)
        machine.until(user, first=True)
        assert {k.chunks[0].length for k in machine.log if k.ids == [user.id]} == {16}

    @pytest.mark.parametrize("hung", [False, True])
    @pytest.mark.parametrize("role", Role)
    def test_half_a_chunk_that_failed_waits_for_the_other_half(self, role: Role, hung: bool) -> None:
        machine = Machine(xpus=2, decode_share=0.3)
        prompt = machine.add(24, answer=1)
        while set(machine.running) != set(Role):
            machine.step()
            machine.schedule()
        blocks = list(prompt.blocks)
        del machine.running[role]
        assert machine.scheduler.fail_kernel(role, hung=hung) == []
        assert not machine.schedule(), "nothing else of the batch starts"
        assert prompt.blocks == blocks, "a kernel still writes to them"
        machine.step()
        assert machine.pool.usable == (58 if hung else 64)
        machine.until(prompt)
        assert machine.pool.free == machine.pool.usable

    def test_background_does_not_take_the_blocks_that_a_reactive_request_waits_for(self) -> None:
        restarts = replace(POLICIES["preempt-restart"], promote_after_s=0.0)
        machine = Machine(blocks=9, xpus=2, policy=restarts)
        # One prompt runs on each XPU; both never rest at the same time.
        machine.add(16, PROACTIVE)
        machine.step()
        machine.add(13, PROACTIVE)
        machine.schedule()
        user = machine.add(26, answer=1)
        for _ in range(100):
            machine.step()
        assert user in machine.done

    def test_a_background_kernel_ends_before_reactive_work_needs_its_xpu(self) -> None:
        machine = Machine(xpus=2, decode_share=0.3)
        for _ in range(2):
            machine.add(64, PROACTIVE, answer=4)
        for _ in range(6):
            machine.step()
        user = machine.add(32, answer=2)
        machine.until(user)
        handed_over = [
            (one.end, two.start)
            for one, two in zip(
                *[[k for k in machine.log if k.ids == [user.id]][i:] for i in (0, 1)], strict=False
            )
            if one.scheduled.batch is two.scheduled.batch and one.scheduled.role is Role.PREFILL
        ]
        late = [start - end for end, start in handed_over if start - end > 1e-9]
        assert len(handed_over) > 3
        assert not late[1:], "only what ran already when it came may delay it"


LAUNCH, WAIT, DEFER = LaunchDecision.LAUNCH, LaunchDecision.WAIT, LaunchDecision.DEFER
KERNEL = Kernel(0, KernelKind.LAYERS, range(1), range(1), (Role.DECODE,), True)


def cost(share: float) -> KernelCost:
    return KernelCost(seconds=0.01, bandwidth_share=share, bytes=0, watts=1.0, measured=False)


def beside(running: float, level: int) -> dict[Role, ScheduledKernel]:
    """The table of one kernel on the DECODE XPU, of a batch of ``level``."""
    context = BatchContext(0, None, BatchShape(1, 1, 0, 1), (KERNEL,))
    batch = Batch([], Stage.DECODE, level, context)
    return {
        Role.DECODE: ScheduledKernel(batch, context, KERNEL, Role.DECODE, cost(running), 0.0, promoted=False)
    }


@pytest.mark.parametrize("share", [0.1, 0.79, 1.0])
def test_a_kernel_may_always_run_alone(share: float) -> None:
    assert decide_launch(Policy(), {}, cost(share), PROACTIVE, Role.DECODE, 0.0) is LAUNCH


@pytest.mark.parametrize(
    ("running", "share", "reactive", "backfill"),
    [
        (0.15, 0.15, LAUNCH, LAUNCH),
        (0.45, 0.15, LAUNCH, LAUNCH),  # medium pressure, one of them memory-intensive
        (0.79, 0.15, LAUNCH, LAUNCH),  # a decode that alone exceeds the high threshold bars no prefill
        (0.79, 0.01, LAUNCH, LAUNCH),
        (0.95, 0.15, WAIT, DEFER),  # more than there is
        (0.3, 0.3, LAUNCH, DEFER),  # two memory-intensive ones: selective pairing
        (0.45, 0.45, WAIT, DEFER),  # high pressure: one after the other
        (0.79, 0.21, WAIT, DEFER),
    ],
)
def test_sums_of_shares_decide(
    running: float, share: float, reactive: LaunchDecision, backfill: LaunchDecision
) -> None:
    decisions: list[Any] = [
        decide_launch(Policy(), beside(running, level), cost(share), own, Role.PREFILL, 0.0)
        for level, own in ((PROACTIVE, REACTIVE), (REACTIVE, PROACTIVE))
    ]
    assert decisions == [reactive, backfill]
