"""Engines of two models: in virtual time, and on a real thread each."""

from __future__ import annotations

import dataclasses
import gc
import weakref
from typing import Any

import pytest

from agentrt.priority import Priority
from agentrt.runtime import EngineGroup
from agentrt.runtime.engine.engine_group import EngineGroupMember
from agentrt.runtime.scheduler.sequence import Sequence
from agentrt.runtime.xpu import watchdog
from tests.patience import PATIENCE_S
from tests.runtime.conftest import Hold, OpenRuntime, open_exact
from tests.runtime.engine.test_engine import submit
from tests.runtime.scheduler.machine import QUANTUM, Kernel, Machine, policy


@dataclasses.dataclass
class GroupedMachine(Machine):
    """A machine that schedules as the engines of a group do; all share one clock."""

    group: EngineGroup = dataclasses.field(default_factory=EngineGroup)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.wakes = self.interrupts = 0
        self.place = EngineGroupMember(self.group, self._wake, self._interrupt, self.policy.promoted_stride)
        self.watch = lambda kernel: self.place.note_kernel(background=kernel.scheduled.batch.is_background)

    def background_may_run(self) -> bool:
        return self.place.update(
            reactive=self.scheduler.queues.has_reactive_work, promoted=bool(self.scheduler.queues.promoted)
        )

    def _wake(self) -> None:
        self.wakes += 1

    def _interrupt(self) -> None:
        self.interrupts += 1


def two_machines(**changes: Any) -> tuple[GroupedMachine, GroupedMachine]:
    group = EngineGroup()
    settings = policy(**changes)
    return GroupedMachine(group=group, policy=settings), GroupedMachine(group=group, policy=settings)


def step(*machines: GroupedMachine) -> None:
    """Start what may start on each machine, and advance the one clock to the first end of a kernel."""
    for _ in range(2):  # the first one may go on by what the second one finds
        for machine in machines:
            machine.schedule()
    ends = [
        (min(each.end for each in machine.running.values()), machine)
        for machine in machines
        if machine.running
    ]
    first, machine = min(ends, key=lambda pair: pair[0])
    machine.step()
    for other in machines:
        other.now = first


def finish(sequence: Sequence, *machines: GroupedMachine) -> None:
    while not any(sequence in machine.done for machine in machines):
        step(*machines)


def started_within(machine: Machine, begin: float, end: float) -> list[Kernel]:
    return [kernel for kernel in machine.log if begin <= kernel.start < end]


def test_background_work_of_one_model_pauses_for_a_reactive_request_of_another() -> None:
    first, second = two_machines()
    background = first.add(16, Priority.PROACTIVE, answer=40)
    for _ in range(10):
        step(first, second)
    first.schedule()
    arrived, started = second.now, len(first.log)
    request = second.add(8, answer=10)
    finish(request, first, second)
    assert second.log[0].start == arrived  # it waits for no kernel of the other model
    assert len(first.log) == started
    assert arrived < first.log[-1].end <= arrived + QUANTUM
    finish(background, first, second)
    assert first.log[started].start == second.done[request]


@pytest.mark.parametrize("priority", Priority)
def test_equal_work_of_both_models_goes_on(priority: Priority) -> None:
    first, second = two_machines()
    one, other = first.add(8, priority, answer=5), second.add(8, priority, answer=5)
    finish(one, first, second)
    finish(other, first, second)
    assert first.done[one] == second.done[other]


def test_promoted_work_gets_one_kernel_in_eight_of_another_model() -> None:
    first, second = two_machines(promote_after_s=0.05, promoted_stride=7)
    background = first.add(4, Priority.PROACTIVE, answer=50)
    request = second.add(4, answer=60)
    finish(request, second, first)
    promoted = started_within(first, 0.05, second.done[request])
    reactive = started_within(second, 0.05, second.done[request])
    assert len(reactive) > 5 * 7
    assert len(reactive) // 7 - 1 <= len(promoted) <= len(reactive) // 7 + 1
    assert not started_within(first, 0.0, 0.05)
    finish(background, first, second)


def test_reactive_work_interrupts_the_background_of_others_once() -> None:
    first, second = two_machines()
    background = first.add(16, Priority.PROACTIVE, answer=40)
    for _ in range(3):
        step(first, second)
    assert (first.interrupts, second.interrupts) == (0, 0)
    finish(second.add(8, answer=10), first, second)
    assert (first.interrupts, second.interrupts) == (1, 0)
    step(first, second)
    finish(second.add(8, answer=10), first, second)
    assert first.interrupts == 2
    finish(background, first, second)


def test_paused_work_is_woken_when_the_other_engine_has_no_reactive_work_or_leaves() -> None:
    first, second = two_machines()
    first.add(8, Priority.PROACTIVE)
    request = second.add(8, answer=2)
    second.schedule()
    assert not first.schedule()
    while request not in second.done:
        second.step()
    assert not first.wakes
    second.schedule()
    assert first.wakes == 1
    second.add(8)
    second.schedule()
    first.schedule()
    second.place.leave()
    assert first.wakes == 2
    assert first.schedule()
    assert first.place.alone


def test_engines_pause_and_go_on(open_runtime: OpenRuntime, hold: Hold) -> None:
    group = EngineGroup()
    first, second = open_runtime(group=group), open_runtime(group=group)
    alone = submit(first, 30).output.result(30).token_ids
    gates = hold(first), hold(second)
    background = submit(first, 30, priority=Priority.PROACTIVE)
    gates[0].arrived()
    request = submit(second, 10)
    gates[1].arrived()  # its reactive work is known from here on
    gates[0].allow(1)
    while not first._engine._member.paused:
        pass  # until the kernel that was running has ended
    steps = len(gates[0].steps)
    assert first.statistics().engine.seconds_since_progress == 0
    for _ in range(5):
        gates[1].step()
        assert len(gates[0].steps) == steps
    gates[1].open()
    assert len(request.output.result(30).token_ids) == 10
    gates[0].open()
    assert background.output.result(30).token_ids == alone


@pytest.mark.slow
def test_a_closed_runtime_frees_its_model_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "GRACE_S", PATIENCE_S)  # its thread has ended, and holds nothing
    runtime = open_exact(group=EngineGroup())
    engine = weakref.ref(runtime._engine)
    kernels = [weakref.ref(xpu.kernels) for xpu in runtime._platform.xpus.values()]
    gc.disable()  # which would free it some day, with hundreds of megabytes
    try:
        runtime.generate([{"role": "user", "content": "Hello!"}], max_tokens=2)
        runtime.close()
        del runtime
        assert engine() is None
        assert [each() for each in kernels] == [None]
    finally:
        gc.enable()
