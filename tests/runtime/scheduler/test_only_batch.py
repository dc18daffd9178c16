"""While one batch has all unfinished sequences, its next kernel starts without a search for other work."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.priority import Priority
from agentrt.runtime.scheduler.batch_builder import BatchBuilder
from agentrt.runtime.scheduler.policy import POLICIES
from agentrt.runtime.scheduler.scheduler import Scheduler
from agentrt.runtime.scheduler.sequence import Sequence
from tests.hypothesis_profiles import examples
from tests.runtime.scheduler.machine import Machine


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
