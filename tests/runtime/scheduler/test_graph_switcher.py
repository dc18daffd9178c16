"""Graphs that change during prefill (sd.npu §3.2): which, and in virtual time on a simulated NPU."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.bench.simulation.platform import simulate
from agentrt.bench.simulation.simulation import SimulatedRequest, Simulation
from agentrt.priority import Priority
from agentrt.runtime.heg.graph import ExecutionGraph
from agentrt.runtime.heg.graph_switch import hidden_fraction
from agentrt.runtime.heg.kernel import BatchShape, GraphLoad, Role, StaticGraph
from agentrt.runtime.scheduler.graph_switcher import GraphSwitcher, PrefillWork
from agentrt.runtime.scheduler.policy import AGENT_XPU
from tests.hypothesis_profiles import examples
from tests.runtime.tiny import made_up_profile

LAYERS = 4
GROUPS = LAYERS
"""Op groups: the last layer is fused, and each other one ends a group and begins the next."""
STATIC, DECODE = 64, 16
GROUP_S = 0.001


@pytest.fixture
def graph() -> ExecutionGraph:
    return graph_of()


def graph_of() -> ExecutionGraph:
    return ExecutionGraph(
        made_up_profile(LAYERS, layer_s=GROUP_S, groups=STATIC, decode_tokens=DECODE),
        tuple(range(LAYERS)),
        block_tokens=32,
        max_chunk_tokens=256,
        quantum_s=0.0015,
    )


@pytest.fixture
def switcher(graph: ExecutionGraph) -> GraphSwitcher:
    return GraphSwitcher(graph)


def drain(switcher: GraphSwitcher, work: PrefillWork | None) -> list[tuple[int, StaticGraph]]:
    """End every load at once; return the loads."""
    loads: list[tuple[int, StaticGraph]] = []
    while (load := switcher.next_load(work)) is not None:
        loads.append((load.group, load.graph))
        switcher.end_load(load, failed=False)
    return loads


def test_the_last_groups_change_first_while_a_chunk_computes(switcher: GraphSwitcher) -> None:
    load = switcher.next_load(PrefillWork(0, 0))
    assert (load.group, load.graph) == (GROUPS - 1, StaticGraph.DECODE)
    assert switcher.loading == load
    assert switcher.next_load(PrefillWork(0, 1)) is None  # one at a time
    switcher.end_load(load, failed=False)
    assert switcher.loading is None
    # Two runs hide a load: groups 2 and 3, so that group 1 may be loaded meanwhile and group 2 may not.
    following = switcher.next_load(PrefillWork(0, 2))
    assert following.group == 1


def test_decodes_take_the_split_route_once_every_group_has_changed(
    switcher: GraphSwitcher, graph: ExecutionGraph
) -> None:
    decode = BatchShape(3, 3, 300, 3)
    fused = graph.kernels_for(decode)
    assert {role for kernel in fused for role in kernel.roles} == {Role.DECODE}
    for left in reversed(range(GROUPS)):
        load = switcher.next_load(PrefillWork(0, None))
        assert graph.kernels_for(decode) == fused
        switcher.end_load(load, failed=False)
        assert graph.decodes_split == (left == 0)
    split = graph.kernels_for(decode)
    assert split[0].roles == (Role.PREFILL,)
    assert split[-1].roles == (Role.DECODE,)
    assert graph.kernels_for(decode, avoid=Role.PREFILL) == fused
    too_many = BatchShape(DECODE + 1, 3, 300, 3)
    assert graph.kernels_for(too_many)[0].roles == (Role.DECODE,)


def test_groups_change_back_without_work_or_with_much(switcher: GraphSwitcher, graph: ExecutionGraph) -> None:
    for work in (None, PrefillWork(100, 0)):
        assert {graph for _, graph in drain(switcher, PrefillWork(0, None))} == {StaticGraph.DECODE}
        assert graph.decodes_split
        assert (GROUPS - 1, StaticGraph.PREFILL) in drain(switcher, work)
        assert not graph.decodes_split
        drain(switcher, None)


def test_in_between_groups_keep_the_graphs_they_have(switcher: GraphSwitcher) -> None:
    """Changing for a prompt, and back, would take longer than its prefill."""
    between = PrefillWork(5, None)  # 20 ms; changing all groups takes 16 ms by estimate
    assert drain(switcher, between) == []
    drain(switcher, PrefillWork(0, None))
    assert drain(switcher, between) == []


def test_a_failed_load_is_not_tried_again_and_the_others_change_back(
    switcher: GraphSwitcher, graph: ExecutionGraph
) -> None:
    decoding = PrefillWork(0, None)
    first = switcher.next_load(decoding)
    switcher.end_load(first, failed=False)
    second = switcher.next_load(decoding)
    switcher.end_load(second, failed=True)
    assert drain(switcher, decoding) == [(first.group, StaticGraph.PREFILL)]
    assert not graph.decodes_split
    assert drain(switcher, decoding) == []


works = st.none() | st.builds(
    PrefillWork, st.integers(0, 20) | st.just(float("inf")), st.none() | st.integers(0, GROUPS - 1)
)


@given(st.lists(st.tuples(works, st.sampled_from(["ends", "fails", "goes on", "rebuilt"])), max_size=60))
def test_any_work_and_any_ends_of_loads(steps: list[tuple[PrefillWork | None, str]]) -> None:
    graph = graph_of()
    switcher = GraphSwitcher(graph)
    graphs = [StaticGraph.PREFILL] * GROUPS
    failed: set[GraphLoad] = set()
    for work, outcome in steps:
        before = switcher.loading
        load = switcher.next_load(work)
        assert load is None or before is None
        if load is not None:
            assert load not in failed
            assert graphs[load.group] is not load.graph
        if outcome == "rebuilt":
            switcher.reset()
            graphs = [StaticGraph.PREFILL] * GROUPS
        elif outcome != "goes on" and (ending := switcher.loading) is not None:
            switcher.end_load(ending, failed=outcome == "fails")
            if outcome == "fails":
                failed.add(ending)
            else:
                graphs[ending.group] = ending.graph
        assert graph.decodes_split == (set(graphs) == {StaticGraph.DECODE})


def simulation() -> Simulation:
    machine = "simulated:core-ultra-5-125h"
    platform, graph = simulate(machine, max_chunk_tokens=256, quantum_s=0.025, npu_decoding=True)
    return Simulation(platform, graph, AGENT_XPU, blocks=4096, max_batch_size=8)


def decodes_on_the_npu(simulated: Simulation) -> int:
    return sum(kernel.role is Role.PREFILL and kernel.stage == "decode" for kernel in simulated.trace.kernels)


def test_loads_are_hidden_behind_a_prompt_and_the_npu_decodes() -> None:
    simulated = simulation()
    simulated.submit(SimulatedRequest(2048, 64, Priority.REACTIVE))
    simulated.run()
    (output,) = simulated.outputs
    loads = [load for load in simulated.graph_loads if load.load.graph is StaticGraph.DECODE]
    assert sorted(load.load.group for load in loads) == list(range(28))
    spans = [(load.started, load.ended) for load in loads]
    assert hidden_fraction(spans, output.first_token) >= 0.95
    assert decodes_on_the_npu(simulated) > 28 * 50


@pytest.mark.slow
def test_a_hung_npu_starts_over_with_the_graphs_for_chunks() -> None:
    simulated = simulation()
    npu = simulated._platform.xpus[Role.PREFILL]
    simulated.submit(SimulatedRequest(1024, 200, Priority.REACTIVE))
    while not decodes_on_the_npu(simulated):
        simulated.clock.advance()
    npu.hang_next = True
    simulated.run()
    assert npu.rebuilds == 1
    assert len(simulated.outputs) == 1
    assert len([load for load in simulated.graph_loads if load.load.graph is StaticGraph.DECODE]) > 28


requests = st.lists(
    st.tuples(st.integers(1, 1500), st.integers(1, 40), st.sampled_from(Priority), st.floats(0, 3, width=16)),
    min_size=1,
    max_size=6,
)


@examples(10)
@given(requests)
def test_every_request_ends_whatever_is_loaded(arrivals: list[tuple[int, int, Priority, float]]) -> None:
    simulated = simulation()
    for prompt, answer, priority, at in arrivals:
        simulated.submit(SimulatedRequest(prompt, answer, priority), at)
    simulated.run()
    simulated.scheduler.check_integrity()
    assert len(simulated.outputs) == len(arrivals)
    spans = sorted((load.started, load.ended) for load in simulated.graph_loads)
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(spans))
