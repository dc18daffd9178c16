"""Loads of stored contexts and ahead-of-time swap-out (LLMS §3.3, §3.4): the machine checks what is read."""

from __future__ import annotations

from typing import Any

import pytest

from agentrt.priority import Priority
from agentrt.runtime.kv.swap.chunks import LoadState
from agentrt.runtime.kv.swap.costs import LinearCost
from agentrt.runtime.scheduler.sequence import Sequence, SequenceState
from tests.runtime.scheduler.machine import BLOCK
from tests.runtime.scheduler.swapping import SwappingMachine

APP = b"notes"
SLOW = LinearCost(10.0, 0.0)
CONTEXT = 33
"""Tokens of the stored prompt: eight complete blocks, and one token."""


@pytest.fixture
def machine() -> SwappingMachine:
    """A machine whose arena has lost a context of eight chunks, which are stored."""
    return with_stored_context()


def with_stored_context(**settings: Any) -> SwappingMachine:
    machine = SwappingMachine(**settings)
    machine.until(machine.add(CONTEXT, app=APP, answer=1))
    copy_all(machine)
    fill(machine)
    assert len(machine.swapper.stored) == CONTEXT // BLOCK
    machine.log.clear()
    machine.swapper.swap_outs.clear()
    return machine


def fill(machine: SwappingMachine) -> None:
    """Have another app's prompt take all blocks, so that the arena loses everything else."""
    machine.until(machine.add(list(range(1000, 1000 + machine.blocks * BLOCK - 1)), answer=1))


def copy_all(machine: SwappingMachine) -> None:
    while machine.swapper.outgoing:
        machine.copy_one()


def computed_by(machine: SwappingMachine, sequence: Sequence) -> list[tuple[int, int]]:
    """The chunks of a sequence that were computed: first token, length."""
    found: list[tuple[int, int]] = []
    for kernel in machine.log:
        if kernel.ends_batch:
            mine = [chunk for chunk in kernel.chunks if chunk.sequence is sequence]
            found += [(machine.begins[id(chunk)], chunk.length) for chunk in mine]
    return found


def test_a_stored_context_is_loaded_and_only_the_rest_is_computed(machine: SwappingMachine) -> None:
    sequence = machine.add(CONTEXT + 6, app=APP)
    assert not machine.schedule()
    assert sequence.state is SequenceState.LOADING
    by_urgency = sorted(machine.swapper.queue, key=lambda load: load.urgency)
    assert [load.position for load in by_urgency] == [*range(7, -1, -1)]
    machine.load_all()
    machine.until(sequence)
    assert computed_by(machine, sequence)[0] == (32, 7)
    assert sequence.cached_tokens == 32
    statistics = machine.scheduler.statistics()
    assert (statistics.loaded_contexts, statistics.recomputed_chunks) == (1, 0)


def test_a_sequence_that_waits_for_the_disk_delays_no_other(machine: SwappingMachine) -> None:
    sequence = machine.add(CONTEXT, app=APP)
    machine.schedule()
    reactive = machine.add([5, 6, 7], app=None)
    proactive = machine.add([8, 9], Priority.PROACTIVE)
    machine.until(reactive)
    machine.until(proactive)
    assert sequence.state is SequenceState.LOADING
    machine.load_all()
    machine.until(sequence)


def test_a_damaged_chunk_is_computed_and_those_behind_it_are_skipped(machine: SwappingMachine) -> None:
    sequence = machine.add(CONTEXT, app=APP)
    machine.schedule()
    while machine.swapper.queue:
        load = machine.swapper.start()
        machine.end_load(load, damaged=load.position == 3)
    machine.until(sequence)
    assert computed_by(machine, sequence)[:2] == [(12, 4), (32, 1)]
    assert sequence.cached_tokens == 28
    assert machine.scheduler.statistics().recomputed_chunks == 1
    assert [chunk.position for out in machine.swapper.swap_outs for chunk in out.chunks] == [3], "stored anew"


def test_on_a_slow_disk_loads_meet_the_recompute(machine: SwappingMachine) -> None:
    machine.swapper.cost = LinearCost(0.012, 0.0)
    recompute = machine.scheduler._recompute_cost(0)
    sequence = machine.add(CONTEXT, app=APP)
    kernels = 0
    while sequence not in machine.done:
        if kernels % 4 == 0 and machine.swapper.queue:  # a chunk in the time of a forward pass
            machine.end_load(machine.swapper.start())
        machine.step()
        kernels += 1
    computed = computed_by(machine, sequence)
    assert computed[0][0] == 0
    assert computed[-3][0] == 32
    loaded = sum(1 for chunk in range(8) if not any(b <= 4 * chunk < b + n for b, n in computed))
    assert 0 < loaded < 8
    assert machine.scheduler.statistics().recomputed_chunks == 8 - loaded
    assert recompute.seconds(1) < 0.012


def test_a_disk_that_stalls_is_noticed_in_time(machine: SwappingMachine) -> None:
    """The chunk that is being read cannot be withdrawn: it is computed in another block."""
    sequence = machine.add(CONTEXT, app=APP)
    machine.schedule()
    stalled = machine.swapper.start()
    assert stalled.position == 7
    assert not machine.schedule()
    machine.swapper.cost = SLOW
    due = machine.scheduler.next_timeout()
    assert due - machine.now < 0.1
    machine.now = due
    machine.until(sequence)
    assert sequence.cached_tokens == 0
    assert machine.scheduler.statistics().recomputed_chunks == 8
    machine.end_load(stalled)
    again = machine.add(CONTEXT, app=APP)
    machine.until(again)
    assert again.cached_tokens == 32


def test_sequences_with_one_prefix_share_its_loads(machine: SwappingMachine) -> None:
    proactive = machine.add(CONTEXT, Priority.PROACTIVE, app=APP)
    machine.schedule()
    reactive = machine.add(CONTEXT + 3, app=APP)
    machine.schedule()
    assert proactive.state is reactive.state is SequenceState.LOADING
    assert len(machine.swapper.queue) == 8
    assert {load.urgency[0] for load in machine.swapper.queue} == {Priority.REACTIVE}
    machine.load_all()
    for sequence in (reactive, proactive):
        machine.until(sequence)
        assert sequence.cached_tokens == 32


def test_cancelling_withdraws_what_has_not_started(machine: SwappingMachine) -> None:
    free = machine.pool.free
    sequence = machine.add(CONTEXT, app=APP)
    machine.schedule()
    loads = list(machine.swapper.queue)
    started = machine.swapper.start()
    machine.scheduler.finish(sequence)
    machine.scheduler.check_integrity()
    assert not machine.swapper.queue
    assert [load.state for load in loads].count(LoadState.WITHDRAWN) == 7
    assert machine.pool.free == free - 1, "the swapper may be writing to its block"
    machine.end_load(started)
    assert machine.pool.free == free
    assert machine.pool.find(started.block_hash) == started.block, "it was not loaded for nothing"


def test_a_next_turn_stores_what_is_new(machine: SwappingMachine) -> None:
    sequence = machine.add(CONTEXT + 8, app=APP, answer=1)
    machine.schedule()
    machine.load_all()
    machine.until(sequence)
    (swap_out,) = machine.swapper.swap_outs
    assert [chunk.position for chunk in swap_out.chunks] == [8, 9]
    assert len(swap_out.block_hashes) == 10
    assert (swap_out.app, swap_out.context_id) == ("notes", "")


def test_a_cancelled_prompt_is_stored_as_far_as_it_was_computed(machine: SwappingMachine) -> None:
    sequence = machine.add(list(range(500, 540)), app=b"mail")
    while sequence.computed_tokens < 16:
        machine.step()
    machine.scheduler.finish(sequence)
    (swap_out,) = machine.swapper.swap_outs
    assert len(swap_out.chunks) == 4


@pytest.mark.parametrize(("app", "named"), [(APP, False), (b"mail", True)])
def test_another_app_and_one_without_a_name_load_nothing(
    machine: SwappingMachine, app: bytes, named: bool
) -> None:
    sequence = machine.add(CONTEXT, app=app, named=named)
    machine.until(sequence)
    assert sequence.cached_tokens == machine.scheduler.statistics().loaded_contexts == 0
    assert bool(machine.swapper.swap_outs) is named


def test_what_was_loaded_is_locked_for_every_sequence_that_waited(machine: SwappingMachine) -> None:
    first, second = (machine.add(CONTEXT, app=APP) for _ in range(2))
    machine.schedule()
    machine.load_all()
    machine.scheduler.finish(first)
    machine.pool.release(machine.pool.allocate(machine.pool.free))  # all that nobody holds is lost
    machine.until(second)
    assert second.cached_tokens == 32
    assert computed_by(machine, second)[0] == (32, 1)


def test_what_is_loaded_again_after_an_eviction_is_not_counted_twice() -> None:
    machine = with_stored_context(blocks=12)
    sequence = machine.add(CONTEXT, Priority.PROACTIVE, app=APP, answer=8)
    machine.schedule()
    machine.load_all()
    machine.until(sequence, first=True)
    assert sequence.cached_tokens == 32
    machine.until(machine.add(list(range(1000, 1044))))
    copy_all(machine)
    machine.step()
    assert sequence.evicted
    machine.load_all()
    machine.until(sequence)
    assert machine.scheduler.statistics().loaded_contexts == 2
    assert sequence.cached_tokens == 32


def test_a_load_that_starts_while_its_sequence_is_evicted(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = with_stored_context(blocks=12)
    sequence = machine.add(CONTEXT, Priority.PROACTIVE, app=APP)
    machine.schedule()
    withdraw = machine.swapper.withdraw
    started = []

    def too_late(load: Any) -> bool:
        if not started:
            started.append(machine.swapper.start())
        return withdraw(load)

    monkeypatch.setattr(machine.swapper, "withdraw", too_late)
    urgent = machine.add([7] * 45)
    machine.schedule()
    assert urgent.state is SequenceState.WAITING, "one block is not free yet"
    machine.end_load(started[0])
    machine.until(urgent)
    machine.step()
    machine.load_all()
    machine.until(sequence)
