"""Graphs that change during prefill, in virtual time: the scheduler on a simulated NPU (sd.npu §3.2)."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.bench.simulation.platform import simulate
from agentrt.bench.simulation.simulation import SimulatedRequest, Simulation
from agentrt.priority import Priority
from agentrt.runtime.heg.graph_switch import hidden_fraction
from agentrt.runtime.heg.kernel import BatchShape, KernelKind, Role, StaticGraph
from agentrt.runtime.scheduler.policy import AGENT_XPU
from tests.hypothesis_profiles import examples

MACHINE = "simulated:core-ultra-5-125h"


def simulation(*, npu_decoding: bool = True) -> Simulation:
    platform, graph = simulate(MACHINE, max_chunk_tokens=256, quantum_s=0.025, npu_decoding=npu_decoding)
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


def test_without_npu_decoding_nothing_is_loaded() -> None:
    simulated = simulation(npu_decoding=False)
    simulated.submit(SimulatedRequest(2048, 8, Priority.REACTIVE))
    simulated.run()
    assert simulated.graph_loads == []
    assert decodes_on_the_npu(simulated) == 0


def test_the_graphs_for_chunks_are_loaded_again_once_there_is_no_work() -> None:
    simulated = simulation()
    simulated.submit(SimulatedRequest(1024, 16, Priority.REACTIVE))
    simulated.run()
    while simulated.clock.advance():
        pass
    graphs = {load.load.group: load.load.graph for load in simulated.graph_loads}
    assert set(graphs.values()) == {StaticGraph.PREFILL}
    assert len(graphs) == 28


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


def test_a_chunk_takes_longer_with_graphs_for_decoding() -> None:
    platform, graph = simulate(MACHINE, max_chunk_tokens=256, quantum_s=0.025, npu_decoding=True)
    assert graph.static_tokens is not None
    chunk, kernel = BatchShape(graph.static_tokens, 1, 0, 0), graph.token_kernels[1]
    assert kernel.kind is KernelKind.TOKENS
    once, repeated = (
        graph.cost_model.estimate(kernel, chunk, Role.PREFILL, chosen).seconds for chosen in StaticGraph
    )
    assert once < repeated < 1.25 * once
    assert repeated == pytest.approx(once + 3 * 0.0003, rel=0.01)
    platform.close()
