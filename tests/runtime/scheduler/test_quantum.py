"""No proactive kernel is longer than the quantum, on one XPU or two, but for one that cannot be divided."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.bench.simulation.platform import simulate
from agentrt.priority import Priority
from agentrt.runtime.heg.granularity import choose_granularity
from agentrt.runtime.heg.graph import ExecutionGraph
from agentrt.runtime.kv.block_pool import BlockPool
from agentrt.runtime.scheduler.draft import Draft
from agentrt.runtime.scheduler.launch_decision import ScheduledKernel
from agentrt.runtime.scheduler.policy import Policy
from agentrt.runtime.scheduler.scheduler import Scheduler
from agentrt.runtime.scheduler.sequence import Sequence
from tests.hypothesis_profiles import examples
from tests.runtime.tiny import made_up_profile

QUANTUM = 0.025


def shipped(machine: str) -> ExecutionGraph:
    return simulate(f"simulated:{machine}", max_chunk_tokens=256, quantum_s=QUANTUM)[1]


def made_up(
    groups: int | None, layer_s: float = 0.004, seams: Collection[int] = range(1, 12)
) -> ExecutionGraph:
    """The graph of twelve layers of 4 ms for up to 32 tokens; with ``groups``, on two XPUs."""
    profile = made_up_profile(12, layer_s=layer_s, segment_s=0.0002, groups=groups, read_s=2e-7, pair_s=1e-8)
    return choose_granularity(profile, seams, block_tokens=32, max_chunk_tokens=256, quantum_s=QUANTUM)


GRAPHS: dict[str, Callable[[], ExecutionGraph]] = {
    "cpu": lambda: made_up(None),
    "emulated": lambda: made_up(128),
    # A fused kernel of a whole static chunk is longer than the quantum.
    "emulated, few seams": lambda: made_up(128, seams=(3, 6, 9, 11)),
    "simulated Core Ultra": lambda: shipped("core-ultra-5-125h"),
    "simulated CPU": lambda: shipped("core-ultra-5-125h-cpu"),
}


Request: TypeAlias = tuple[float, int, int, Priority, int]
"""Arrival, prompt tokens, answer tokens, priority, draft tokens for each decode."""


def run(graph: ExecutionGraph, requests: list[Request]) -> list[ScheduledKernel]:
    """Serve ``requests`` until all have ended; return all kernels."""
    scheduler = Scheduler(
        BlockPool(4096), graph, Policy(), max_batch_size=8, quantised_keys=True, share_sampled=False
    )
    kernels: list[ScheduledKernel] = []
    active: list[ScheduledKernel] = []
    now, wanted, coming = 0.0, {}, sorted(requests, key=lambda request: request[0])
    while coming or wanted:
        while coming and coming[0][0] <= now:
            _, prompt, answer, priority, draft = coming.pop(0)
            sequence = Sequence(len(requests) - len(coming), priority, [0] * prompt, arrived=now)
            sequence.calibrates = draft > 0
            wanted[sequence] = (prompt + answer, draft)
            scheduler.add(sequence, now)
        started = scheduler.schedule(now)
        kernels += started
        active += started
        if not active:
            now = coming[0][0]
            continue
        first = min(active, key=lambda kernel: kernel.started + kernel.cost.seconds)
        active.remove(first)
        now = first.started + first.cost.seconds
        done = scheduler.complete_kernel(first.role, now)
        for chunk in done.chunks if done is not None else ():
            if chunk.samples and chunk.sequence in wanted:
                chunk.sequence.tokens.append(0)
                end, draft = wanted[chunk.sequence]
                if len(chunk.sequence.tokens) >= end:
                    del wanted[chunk.sequence]
                    scheduler.finish(chunk.sequence)
                else:
                    length = min(draft, end - len(chunk.sequence.tokens) - 1)
                    scheduler.set_draft(chunk.sequence, Draft((1,) * length, (1.0,) * length))
    scheduler.check_integrity()
    return kernels


def check(graph: ExecutionGraph, kernels: list[ScheduledKernel]) -> None:
    for kernel in kernels:
        if kernel.batch.is_background:
            past = kernel.batch.context.shape.past_tokens
            limit = max(graph.quantum_s, graph.indivisible_s(past))
            assert kernel.cost.seconds <= limit + 1e-9, (kernel.kernel, kernel.batch.context.shape)


REQUEST = st.tuples(
    st.floats(0, 2),
    st.one_of(st.integers(1, 2048), st.sampled_from([127, 128, 129, 240, 255, 256, 257, 1100])),
    st.integers(1, 8),
    st.sampled_from(Priority),
    st.sampled_from([0, 0, 6]),
)


@pytest.mark.hypothesis
@pytest.mark.parametrize("platform", GRAPHS)
def test_no_proactive_kernel_is_longer_than_the_quantum(platform: str) -> None:
    graph = GRAPHS[platform]()
    assert graph.indivisible_s() <= 1.01 * QUANTUM, "hardly anything needs to be longer here"

    @examples(15)
    @given(requests=st.lists(REQUEST, min_size=1, max_size=12))
    def holds(requests: list[Request]) -> None:
        check(graph, run(graph, requests))

    holds()


@pytest.mark.slow
def test_many_long_contexts_do_not_decode_in_one_long_kernel() -> None:
    """Eight decodes that read 8,000 tokens each take 30 ms in one layer: fewer of them go together."""
    graph = made_up(None, layer_s=0.02)
    kernels = run(graph, [(0.0, 2000, 40, Priority.PROACTIVE, 0)] * 6)
    check(graph, kernels)
    assert max(len(kernel.batch.chunks) for kernel in kernels) > 1


def test_a_kernel_that_cannot_be_divided_is_named() -> None:
    with pytest.warns(RuntimeWarning, match="reactive"):
        graph = choose_granularity(
            made_up_profile(4, layer_s=0.2), (), block_tokens=32, max_chunk_tokens=256, quantum_s=QUANTUM
        )
    assert graph.indivisible_s() == pytest.approx(0.8)
    rng = random.Random(1)
    requests: list[Any] = [
        (rng.uniform(0, 9), rng.randint(1, 300), 3, rng.choice(list(Priority)), 0) for _ in range(9)
    ]
    kernels = run(graph, requests)
    check(graph, kernels)
    assert {len(kernel.batch.chunks) for kernel in kernels if kernel.batch.is_background} == {1}
