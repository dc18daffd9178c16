from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.runtime.heg.graph import ExecutionGraph
from agentrt.runtime.heg.kernel import BatchShape, GraphLoad, Role, StaticGraph
from agentrt.runtime.scheduler.graph_switcher import GraphSwitcher, PrefillWork
from tests.runtime.tiny import made_up_profile

LAYERS = 4
GROUPS = LAYERS
"""Op groups: the last layer is fused, and each other one ends a group and begins the next."""
STATIC, DECODE = 64, 16
LOAD_S = 0.002
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


def test_estimates_follow_the_graph_and_repeat_it(graph: ExecutionGraph) -> None:
    costs, kernel = graph.cost_model, graph.token_kernels[1]

    def runs(tokens: int, graph: StaticGraph | None) -> float:
        seconds = costs.estimate(kernel, BatchShape(tokens, 1, 0, 0), Role.PREFILL, graph).seconds
        return round(seconds / GROUP_S, 9)

    assert runs(STATIC, None) == runs(STATIC, StaticGraph.PREFILL) == 1.0
    assert runs(STATIC, StaticGraph.DECODE) == 4 * 0.5
    assert runs(DECODE, None) == runs(1, None) == runs(1, StaticGraph.DECODE) == 0.5
    assert runs(1, StaticGraph.PREFILL) == 1.0
    assert runs(DECODE + 1, StaticGraph.DECODE) == 1.0
    assert costs.estimate_load(kernel).seconds == LOAD_S


def test_the_last_groups_change_first_while_a_chunk_computes(switcher: GraphSwitcher) -> None:
    load = switcher.next_load(PrefillWork(0, 0))
    assert load is not None
    assert (load.group, load.graph) == (GROUPS - 1, StaticGraph.DECODE)
    assert switcher.loading == load
    assert switcher.next_load(PrefillWork(0, 1)) is None  # one at a time
    switcher.end_load(load, failed=False)
    assert switcher.loading is None
    # Two runs hide a load: groups 2 and 3, so that group 1 may be loaded meanwhile and group 2 may not.
    following = switcher.next_load(PrefillWork(0, 2))
    assert following is not None
    assert following.group == 1


def test_prompts_that_take_long_keep_the_graph_made_for_them(switcher: GraphSwitcher) -> None:
    assert drain(switcher, PrefillWork(100, 0)) == []
    assert drain(switcher, PrefillWork(float("inf"), None)) == []


def test_decodes_take_the_split_route_once_every_group_has_changed(
    switcher: GraphSwitcher, graph: ExecutionGraph
) -> None:
    decode = BatchShape(3, 3, 300, 3)
    fused = graph.kernels_for(decode)
    assert {role for kernel in fused for role in kernel.roles} == {Role.DECODE}
    for left in reversed(range(GROUPS)):
        load = switcher.next_load(PrefillWork(0, None))
        assert load is not None
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
    assert first is not None
    switcher.end_load(first, failed=False)
    second = switcher.next_load(decoding)
    assert second is not None
    switcher.end_load(second, failed=True)
    assert drain(switcher, decoding) == [(first.group, StaticGraph.PREFILL)]
    assert not graph.decodes_split
    assert drain(switcher, decoding) == []


def test_a_rebuilt_xpu_starts_over_but_for_the_load_in_progress(
    switcher: GraphSwitcher, graph: ExecutionGraph
) -> None:
    drain(switcher, PrefillWork(0, None))
    load = switcher.next_load(None)
    assert load is not None
    switcher.reset()
    assert not graph.decodes_split
    assert switcher.loading == load
    switcher.end_load(load, failed=False)
    assert len(drain(switcher, PrefillWork(0, None))) == GROUPS


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
