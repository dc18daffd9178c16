"""Random orders of events: arrivals, kernels, failures, time, loads; any policy, few KV blocks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from agentrt.priority import Priority
from agentrt.runtime.heg.kernel import Role
from agentrt.runtime.kv.swap.costs import LinearCost
from agentrt.runtime.scheduler.batch import Batch
from agentrt.runtime.scheduler.policy import POLICIES, Policy
from agentrt.runtime.scheduler.sequence import Sequence, SequenceState
from tests.hypothesis_profiles import examples
from tests.runtime.scheduler.machine import BLOCK, QUANTUM, Kernel, Machine
from tests.runtime.scheduler.swapping import FakeSwapper, SwappingMachine

BLOCKS = 9
BATCH = 3
APPS = (b"one", b"two", b"three", b"four")
SHARING_APPS = 3
"""Fewer than there are."""


class AnyOrder(RuleBasedStateMachine):
    policy: Policy
    xpus: int
    state_rows = 0
    machine_type: type[Machine] = Machine

    @initialize(quantised_keys=st.booleans(), free_tokens=st.sampled_from([0, 12]))
    def start(self, quantised_keys: bool, free_tokens: int = 0) -> None:
        self.machine = self.machine_type(
            blocks=BLOCKS,
            batch=BATCH,
            xpus=self.xpus,
            policy=self.policy,
            quantised_keys=quantised_keys,
            state_rows=self.state_rows,
            free_tokens=0 if self.machine_type is not Machine else free_tokens,
        )
        self.machine.watch = self.kernel_starts
        self.scheduler = self.machine.scheduler
        self.alive: list[Sequence] = []
        self.finished: list[Sequence] = []
        self.quarantined = self.quarantined_rows = 0
        self.lost: dict[Batch, int] = {}
        """Blocks of batches of which a kernel hung; they are quarantined once none runs."""
        self.kernels: dict[int, int] = {}
        self.started_at: dict[Sequence, int] = {}
        self.reactive_in_a_row = 0

    @rule(
        prompt=st.integers(1, (BLOCKS - 2) * BLOCK),
        answer=st.integers(1, 5),
        priority=st.sampled_from(Priority),
        app=st.sampled_from([*APPS, None]),
        deadline=st.none() | st.floats(0.001, 3),
        drafts=st.lists(st.booleans(), max_size=6).map(tuple),
        given=st.sampled_from([0, 0, 1, 9]),
    )
    def arrive(self, prompt: int, answer: int, given: int, deadline: float | None, **more: Any) -> None:
        due = None if deadline is None else self.machine.now + deadline
        if prompt + answer + given <= self.scheduler.usable_tokens:
            self.alive.append(self.machine.add(prompt, answer=answer, given=given, deadline=due, **more))

    @rule()
    def schedule(self) -> None:
        self.machine.schedule()
        if not self.machine.running:
            unfinished = self.scheduler.statistics().waiting + self.scheduler.statistics().running
            assert self.waits() or not unfinished, "a sequence could run"
        assert not self.machine.schedule(), "all kernels that may run have been started"

    def waits(self) -> bool:
        """Whether something other than a kernel lets sequences go on: here the end of a held context."""
        return self.scheduler.next_timeout() < float("inf")

    def holds_blocks(self) -> bool:
        """Whether something else than sequences and held contexts has blocks that the next token may lack."""
        return False

    def settle(self) -> None:
        """End what goes on beside the kernels."""

    def kernel_starts(self, kernel: Kernel) -> None:
        scheduled = kernel.scheduled
        started, role = scheduled.kernel, scheduled.role
        assert role in started.roles
        context = scheduled.context
        assert self.kernels.get(context.id, 0) == started.index, "in order, none twice"
        self.kernels[context.id] = started.index + 1
        assert scheduled.cost.seconds <= QUANTUM or self.policy.mixed_batches
        self._chunks_are_valid(kernel)
        if context is scheduled.batch.contexts[0] and started.index == 0:
            self._no_block_is_written_twice_from_its_middle(kernel)
        self._reactive_goes_first(kernel)

    def _chunks_are_valid(self, kernel: Kernel) -> None:
        assert len(kernel.chunks) <= BATCH
        for sequence, length, samples, draft, _, branches, _ in kernel.chunks:
            start, end = sequence.computed_tokens, sequence.computed_tokens + length
            assert length > 0
            assert end + len(draft) <= len(sequence.blocks) * BLOCK
            assert samples or not draft
            assert draft or not branches
            own = sequence.blocks[: -(-(end + len(draft)) // BLOCK)]
            held = [*own, *(block for branch in branches for block in branch.blocks)]
            assert len(set(held)) == len(held) <= len(sequence.blocks)
            if sequence.state is not SequenceState.FINISHED:
                assert samples == (end == len(sequence.tokens))
            manager = self.scheduler.block_manager
            splits = not manager.quantised_keys and not manager.keeps_states
            if start < sequence.prompt_tokens:
                assert splits or start % BLOCK == 0
                left = sequence.prompt_tokens - end
                assert left == 0 or end % BLOCK == 0 or (splits and left == 2)
                assert not splits or length > 1 or sequence.prompt_tokens == 1, (
                    "other kernels would compute it"
                )
            elif given := [given for given in sequence.given if start in given]:
                assert end == given[0].stop or end % BLOCK == 0 or splits
                assert not draft
            else:
                assert length == 1

    def _no_block_is_written_twice_from_its_middle(self, kernel: Kernel) -> None:
        """Quantised keys would differ: a batch that is started again rewrites such a block from its start."""
        if not self.scheduler.block_manager.quantised_keys:
            return
        for sequence, *_ in kernel.chunks:
            start = sequence.computed_tokens
            assert start % BLOCK == 0 or self.started_at.get(sequence) != start
            self.started_at[sequence] = start

    def _reactive_goes_first(self, kernel: Kernel) -> None:
        """On one XPU reactive work waits only for the running kernel, and at times for promoted work."""
        if not self.policy.by_priority or self.policy.time_share or self.xpus == 2:
            return
        batch = kernel.scheduled.batch
        not_ready = (SequenceState.WAITING, SequenceState.LOADING)
        ready = [s for s in self.alive if not s.level and s.state not in not_ready]
        if self.holds_blocks():
            ready = [s for s in ready if s.computed_tokens < len(s.blocks) * BLOCK]
        if batch.level and ready:
            assert any(s.promoted for s in self.alive), "a background kernel before a reactive one"
            assert self.reactive_in_a_row >= self.policy.promoted_stride
        self.reactive_in_a_row = 0 if batch.level else self.reactive_in_a_row + 1

    @precondition(lambda self: self.machine.running)
    @rule()
    def kernel_ends(self) -> None:
        self.machine.step()

    @precondition(lambda self: self.machine.running)
    @rule(data=st.data(), hung=st.booleans())
    def kernel_fails(self, data: st.DataObject, hung: bool) -> None:
        role = data.draw(st.sampled_from(sorted(self.machine.running, key=lambda role: role.value)))
        chunks = self.machine.running[role].chunks
        lost = sum(
            (
                len(sequence.blocks)
                if branches
                else -(-(sequence.computed_tokens + length + len(draft)) // BLOCK)
            )
            - sequence.computed_tokens // BLOCK
            for sequence, length, _, draft, _, branches, _ in chunks
        )
        usable = self.scheduler.usable_tokens - (sum(self.lost.values()) + lost) * BLOCK
        longest = max((self.machine.ends[s] + self.machine.habits[s][1] for s in self.alive), default=0)
        if hung and usable < longest + BLOCK:
            return  # the engine would end sequences that no longer fit
        rows = sum(len(chunk.sequence.states.access.rows) - 1 for chunk in chunks if chunk.sequence.states)
        if hung and self.state_rows and self.machine.state_pool.usable - rows < 3:
            return  # here as well
        batch = self.machine.running.pop(role).scheduled.batch
        for sequence in self.scheduler.fail_kernel(role, hung=hung):
            assert sequence.faults == self.policy.max_faults
        if hung:
            self.lost[batch] = lost
        self.quarantined_rows += rows if hung else 0
        self.scheduler.take_dropped_contexts()

    @precondition(lambda self: self.alive)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        sequence = data.draw(st.sampled_from(self.alive))
        self.scheduler.finish(sequence)
        assert sequence.state is SequenceState.FINISHED

    @precondition(lambda self: self.finished)
    @rule(data=st.data())
    def tool_waits(self, data: st.DataObject) -> None:
        calls = data.draw(st.sets(st.sampled_from("ab")))
        self.scheduler.expect_return(data.draw(st.sampled_from(self.finished)), calls, self.machine.now)

    @rule(seconds=st.floats(0, 20))
    def time_passes(self, seconds: float) -> None:
        if not self.machine.running:
            self.machine.now += seconds
        for sequence in self.scheduler.expire(self.machine.now):
            assert sequence.deadline is not None
            assert sequence.deadline <= self.machine.now

    @invariant()
    def nothing_is_lost(self) -> None:
        self.scheduler.check_integrity()
        for batch in self.lost.keys() - set(self.scheduler._batches):
            self.quarantined += self.lost.pop(batch)
        self.finished += [s for s in self.alive if s.state is SequenceState.FINISHED]
        self.alive = [s for s in self.alive if s.state is not SequenceState.FINISHED]
        assert self.scheduler.statistics().waiting + self.scheduler.statistics().running == len(self.alive)
        assert self.scheduler.usable_tokens == (BLOCKS - self.quarantined) * BLOCK

    def teardown(self) -> None:
        # Without further events every sequence finishes.
        if not hasattr(self, "machine"):
            return
        for _ in range(20_000):
            self.machine.step()
            self.scheduler.expire(self.machine.now)
            self.settle()
            self.nothing_is_lost()
            if not self.alive:
                break
            if not self.machine.running:
                self.machine.now = min(self.scheduler.next_timeout(), self.machine.now + 1)
        assert not self.alive
        while self.machine.step():
            pass
        self.settle()
        self.machine.now += self.policy.tool_wait_s
        self.scheduler.schedule(self.machine.now)
        assert self.machine.pool.free == BLOCKS - self.quarantined
        if self.state_rows:
            assert self.machine.state_pool.free == self.state_rows - self.quarantined_rows


def run(orders: type[AnyOrder], name: str, **settings: Any) -> None:
    """Under a policy with frequent promotions, turns and lost blocks, although requests are few and short."""
    policy = POLICIES[name]
    promote_after_s = min(1.0, policy.promote_after_s)
    hurried = replace(policy, promote_after_s=promote_after_s, turn_tokens=12, sharing_apps=SHARING_APPS)
    case = type("Case", (orders,), {"policy": hurried, **settings}).TestCase
    case.settings = examples(40, stateful_step_count=45)
    case("runTest").runTest()


@pytest.mark.matrix
@pytest.mark.hypothesis
@pytest.mark.parametrize("xpus", [1, 2])
@pytest.mark.parametrize("name", POLICIES)
def test_any_order(name: str, xpus: int) -> None:
    run(AnyOrder, name, xpus=xpus)


@pytest.mark.matrix
@pytest.mark.hypothesis
@pytest.mark.parametrize("state_rows", [3, 7, 20])
@pytest.mark.parametrize("name", POLICIES)
def test_any_order_of_a_hybrid_model(name: str, state_rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every batch begins from the state behind exactly the tokens that count as computed."""
    monkeypatch.setattr("agentrt.runtime.scheduler.state_rows.CHECKPOINT_BLOCKS", 2)
    run(AnyOrder, name, xpus=1, state_rows=state_rows)


class AnyOrderOfLoads(AnyOrder):
    """The machine checks that each kernel reads what it should, and writes to no block that others use."""

    machine: SwappingMachine
    machine_type = SwappingMachine

    @property
    def swapper(self) -> FakeSwapper:
        return self.machine.swapper

    def waits(self) -> bool:
        return self.holds_blocks() or super().waits()

    def holds_blocks(self) -> bool:
        """Loads, sequences that wait for them and the swapper hold blocks that a ready sequence may lack."""
        return bool(self.swapper.queue or self.swapper.in_flight or self.swapper.outgoing)

    def settle(self) -> None:
        if self.swapper.queue or self.swapper.in_flight:
            self.machine.load_all()
        while self.swapper.outgoing:
            self.machine.copy_one()

    @precondition(lambda self: self.swapper.queue)
    @rule()
    def load_starts(self) -> None:
        self.swapper.start()

    @precondition(lambda self: self.swapper.in_flight)
    @rule(data=st.data(), damaged=st.booleans())
    def load_ends(self, data: st.DataObject, damaged: bool) -> None:
        load = data.draw(st.sampled_from(self.swapper.in_flight))
        self.machine.end_load(load, damaged=damaged)

    @precondition(lambda self: self.swapper.outgoing)
    @rule()
    def block_is_copied(self) -> None:
        self.machine.copy_one()

    @precondition(lambda self: self.swapper.stored)
    @rule(data=st.data())
    def chunk_is_gone(self, data: st.DataObject) -> None:
        del self.swapper.stored[data.draw(st.sampled_from(sorted(self.swapper.stored)))]

    @rule(chunk_s=st.sampled_from([0.0, 0.02, 10.0]))
    def speed_of_the_disk(self, chunk_s: float) -> None:
        self.swapper.cost = LinearCost(chunk_s, 0.0)


@pytest.mark.matrix
@pytest.mark.hypothesis
@pytest.mark.parametrize("xpus", [1, 2])
@pytest.mark.parametrize("name", POLICIES)
def test_any_order_of_loads(name: str, xpus: int) -> None:
    run(AnyOrderOfLoads, name, xpus=xpus)


def test_a_batch_starts_with_sequences_that_come_into_view_by_admissions() -> None:
    """Two prompts of 14 and 2 tokens, with others between, fill a static chunk, for which an XPU is idle."""
    machine = Machine(blocks=BLOCKS, batch=BATCH, xpus=2, policy=POLICIES["fcfs-disaggregated"])
    machine.add(1, answer=1)
    machine.schedule()
    for prompt in (14, 3, 3, 2):
        machine.add(prompt, answer=1)
    machine.schedule()
    assert set(machine.running) == set(Role)


def test_a_batch_that_lost_its_blocks_is_not_a_candidate() -> None:
    """Starting a batch for a promoted prompt takes the blocks of one that could go on, on the other XPU."""
    state = type("Case", (AnyOrder,), {"policy": POLICIES["time-share"], "xpus": 2})()
    state.start(quantised_keys=True)
    request = {"answer": 1, "app": APPS[0], "drafts": (), "given": 0}
    for prompt, priority, deadline in [
        (16, Priority.PROACTIVE, None),
        (16, Priority.REACTIVE, None),
        *[(1, Priority.REACTIVE, None)] * 24,
        (1, Priority.PROACTIVE, 1.0),
        (1, Priority.REACTIVE, 0.5),
    ]:
        state.arrive(prompt=prompt, priority=priority, deadline=deadline, **request)
    state.teardown()
