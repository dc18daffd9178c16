from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.bench.simulation.platform import SharedMemory, SimulatedPlatform, VirtualClock, simulate
from agentrt.bench.simulation.rooflines import Contention, simulated_machines, simulated_profile
from agentrt.errors import ConfigurationError
from agentrt.runtime.heg.graph import ExecutionGraph
from agentrt.runtime.heg.kernel import BatchContext, BatchShape, KernelKind, Role
from agentrt.runtime.xpu.protocol import KernelDone
from tests.runtime.tiny import made_up_profile

SHAPE = BatchShape(1, 1, 0, 0)
ALONE = Contention()


def test_events_are_called_in_order_of_time_then_of_scheduling() -> None:
    clock = VirtualClock()
    seen: list[tuple[str, float]] = []
    for name, time in (("late", 2.0), ("early", 1.0), ("also early", 1.0)):
        clock.call_at(time, lambda name=name: seen.append((name, clock.now)))  # type: ignore[misc]
    assert clock.next_event == 1.0
    clock.advance_to(1.5)
    assert seen == [("early", 1.0), ("also early", 1.0)]
    assert clock.now == 1.5
    clock.call_at(0.5, lambda: seen.append(("overdue", clock.now)))
    assert clock.advance()
    assert clock.advance()
    assert not clock.advance()
    assert seen[2:] == [("overdue", 1.5), ("late", 2.0)]
    assert clock.next_event == float("inf")


def ends(*kernels: tuple[float, float, float], contention: Contention = ALONE) -> list[float]:
    """When kernels end, each given by its start, its seconds alone and its share of the bandwidth."""
    clock = VirtualClock()
    memory = SharedMemory(clock, contention)
    ended = [0.0] * len(kernels)

    def start(at: int) -> None:
        _, seconds, share = kernels[at]

        def end() -> None:
            ended[at] = clock.now

        memory.start(seconds, share, end)

    for at, (begin, _, _) in enumerate(kernels):
        clock.call_at(begin, lambda at=at: start(at))  # type: ignore[misc]
    while clock.advance():
        pass
    return ended


ONE, HALF_INTERFERING, LIMITED = (0.0, 1.0, 1.0), Contention(interference=0.5), Contention(attainable=0.8)
SHARING = {
    "both fit": ([(0.0, 1.0, 0.6), (0.5, 1.0, 0.4)], ALONE, [1.0, 1.5]),
    "two memory-bound kernels halve each other's speed": ([ONE, ONE], ALONE, [2.0, 2.0]),
    # Alone for half a second, at half speed beside the other, which then has the memory for itself.
    "one is alone at first": ([ONE, (0.5, 1.0, 1.0)], ALONE, [1.5, 2.0]),
    # Agent.xpu §3.1: GEMV hardly slows GEMM down, and gets the bandwidth that is left: 0.8 in a second.
    "a compute-bound kernel keeps its bandwidth": ([(0.0, 1.0, 0.2), ONE], ALONE, [1.0, 1.2]),
    "both get what is attainable": ([(0.0, 1.0, 0.4)] * 2, LIMITED, [1.0, 1.0]),
    # GEMV gets 0.6 of the 0.8 it needs, for a second.
    "both want more": ([(0.0, 1.0, 0.2), (0.0, 1.0, 0.8)], LIMITED, [1.0, 1.25]),
    # Agent.xpu §3.1: GEMV is slower beside any kernel, most beside one of similar needs; GEMM hardly.
    "similar needs": ([(0.0, 1.0, 0.45)] * 2, HALF_INTERFERING, [1 + 0.5 * 0.45**2] * 2),
    "other needs": ([(0.0, 1.0, 0.1), (0.0, 1.0, 0.45)], HALF_INTERFERING, [1 + 0.5 * 0.1 * 0.45] * 2),
}


@pytest.mark.parametrize(("kernels", "contention", "ended"), SHARING.values(), ids=SHARING)
def test_kernels_share_the_bandwidth(
    kernels: list[tuple[float, float, float]], contention: Contention, ended: list[float]
) -> None:
    assert ends(*kernels, contention=contention) == pytest.approx(ended)


@given(st.lists(st.tuples(st.floats(0, 10), st.floats(0.01, 5), st.floats(0, 1)), min_size=1, max_size=6))
def test_sharing_speeds_up_no_kernel_and_wastes_no_bandwidth(
    kernels: list[tuple[float, float, float]],
) -> None:
    ended = ends(*kernels)
    for (begin, seconds, _), end in zip(kernels, ended, strict=True):
        assert end >= begin + seconds - 1e-6
    traffic = sum(seconds * share for _, seconds, share in kernels)
    alone = max(begin + seconds for begin, seconds, _ in kernels)
    assert max(ended) <= max(begin for begin, _, _ in kernels) + traffic + alone + 1e-6


def platform_and_contexts() -> tuple[SimulatedPlatform, list[BatchContext]]:
    profile = made_up_profile(4, layer_s=0.01, groups=32)
    graph = ExecutionGraph(profile, (0, 3), block_tokens=32, max_chunk_tokens=64, quantum_s=0.025)
    contexts = [BatchContext(at, None, SHAPE, graph.kernels_for(SHAPE)) for at in range(2)]
    return SimulatedPlatform("made up", profile, ALONE), contexts


def test_kernel_takes_its_estimated_time() -> None:
    platform, (context, _) = platform_and_contexts()
    done: list[KernelDone] = []
    kernel = context.kernels[0]
    platform.xpus[Role.DECODE].submit(kernel, context, done.append)
    assert done == []
    while platform.clock.advance():
        pass
    (event,) = done
    assert (event.context, event.kernel, event.role) == (context, kernel, Role.DECODE)
    assert event.ended - event.started == pytest.approx(0.01 * len(kernel.layers))
    assert platform.now() == event.ended


def test_a_hung_kernel_ends_by_its_timeout_or_by_a_rebuild() -> None:
    platform, (context, other) = platform_and_contexts()
    xpu = platform.xpus[Role.DECODE]
    ran = xpu.run(context.kernels[0], context, 1.0)
    assert ran is not None
    xpu.hang_next = True
    assert xpu.run(context.kernels[0], context, 1.0) is None
    assert platform.now() == pytest.approx(ran.ended + 1.0)
    xpu.rebuild()
    done: list[KernelDone] = []
    xpu.hang_next = True
    xpu.submit(context.kernels[0], context, done.append)
    assert platform.clock.next_event == float("inf")
    xpu.rebuild()
    assert xpu.rebuilds == 2
    xpu.submit(other.kernels[0], other, done.append)
    while platform.clock.advance():
        pass
    assert [event.context for event in done] == [other]


def test_the_machines_that_ship() -> None:
    assert simulated_machines() == ["core-ultra-5-125h", "core-ultra-5-125h-cpu"]
    with pytest.raises(ConfigurationError, match="core-ultra-5-125h"):
        simulated_profile("no-such-machine")
    with pytest.raises(ConfigurationError, match="simulated:"):
        simulate("core-ultra-5-125h", max_chunk_tokens=256, quantum_s=0.025)


def test_the_papers_machine_as_a_roofline() -> None:
    """Agent.xpu §8.1: 11.5 and 18 TOPS, DDR5-5600, Llama-3.2-3B in 8 bits."""
    profile = simulated_profile("core-ultra-5-125h")
    assert not profile.measured
    assert profile.bandwidth == pytest.approx(89.6e9)
    # Llama-3.2-3B has 3.21 billion parameters, of which the embedding is the LM head, too.
    assert profile.layers * profile.layer_bytes + profile.head_bytes == pytest.approx(3.21e9, rel=0.01)
    prefill, decode = profile.xpus[Role.PREFILL], profile.xpus[Role.DECODE]
    assert (prefill.device, decode.device) == ("NPU", "GPU")
    assert prefill.layers is None
    assert prefill.groups is not None
    assert prefill.watts < decode.watts
    platform, graph = simulate("simulated:core-ultra-5-125h", max_chunk_tokens=512, quantum_s=0.025)
    assert set(platform.xpus) == {Role.PREFILL, Role.DECODE}
    token = BatchShape(1, 1, 512, 1)
    kernels = graph.kernels_for(token)
    # Reading every weight once is the least a token can take.
    assert graph.estimate_seconds(token) >= 3.2e9 / profile.bandwidth
    shares = [profile.estimate(kernel, token, Role.DECODE).bandwidth_share for kernel in kernels]
    # The bounds that the machine's file derives from the paper: decode kernels are to be kept apart from each
    # other, but not from the prefill of a whole chunk.
    chunk = BatchShape(graph.static_tokens or 0, 1, 0, 0)
    group = graph.kernels_for(chunk)[2]
    prefill_share = profile.estimate(group, chunk, Role.PREFILL).bandwidth_share
    assert prefill_share == pytest.approx(0.144, abs=0.002)
    assert all(0.35 <= share < 0.7 - prefill_share for share in shares)
    for tokens, left in ((graph.chunk_tokens(1024, 999), 999), (graph.chunk_tokens(1024, 99), 99)):
        assert tokens <= left
        chunk = BatchShape(tokens, 1, 1024, 0)
        for kernel in graph.kernels_for(chunk):
            cost = profile.estimate(kernel, chunk, kernel.roles[0])
            assert cost.seconds <= 0.025
            assert not cost.measured


def test_whole_chunks_hardly_touch_the_gpu_of_the_papers_machine() -> None:
    _, graph = simulate("simulated:core-ultra-5-125h", max_chunk_tokens=512, quantum_s=0.025)
    assert graph.static_tokens is not None
    chunk = BatchShape(graph.static_tokens, 1, 0, 0)
    seconds = dict.fromkeys(Role, 0.0)
    for kernel in graph.kernels_for(chunk):
        if kernel.kind is not KernelKind.LAYERS:
            seconds[kernel.roles[0]] += graph.cost_model.estimate(kernel, chunk, kernel.roles[0]).seconds
    assert seconds[Role.DECODE] < 0.1 * seconds[Role.PREFILL]
