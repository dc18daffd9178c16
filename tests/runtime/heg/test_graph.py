from __future__ import annotations

from collections.abc import Collection

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.runtime.heg.granularity import choose_granularity
from agentrt.runtime.heg.graph import ExecutionGraph
from agentrt.runtime.heg.kernel import BatchShape, KernelKind, Role
from agentrt.runtime.heg.profile import Curve, Profile
from tests.runtime.tiny import made_up_profile

LAYERS = 12


def graph_of(
    *bounds: int, groups: int | None = None, quantum_s: float = 0.0045, **costs: float
) -> ExecutionGraph:
    return ExecutionGraph(
        made_up_profile(LAYERS, groups=groups, **costs),
        bounds,
        block_tokens=32,
        max_chunk_tokens=256,
        quantum_s=quantum_s,
    )


def choose(
    profile: Profile,
    seams: Collection[int] = range(1, LAYERS),
    max_chunk_tokens: int = 256,
    interruptible_s: float | None = None,
) -> ExecutionGraph:
    return choose_granularity(
        profile,
        seams,
        block_tokens=32,
        max_chunk_tokens=max_chunk_tokens,
        quantum_s=0.025,
        interruptible_s=interruptible_s,
    )


def prefill(tokens: int, past: int = 0) -> BatchShape:
    return BatchShape(tokens, 1, past, 0)


@given(
    bounds=st.sets(st.integers(1, LAYERS - 1)),
    groups=st.sampled_from([None, 64, 128]),
    tokens=st.integers(1, 300),
    past=st.integers(0, 5000),
    quantum_ms=st.floats(0.5, 50),
)
def test_every_batch_goes_through_every_layer_once_in_order(
    bounds: set[int], groups: int | None, tokens: int, past: int, quantum_ms: float
) -> None:
    graph = graph_of(0, *sorted(bounds), groups=groups, quantum_s=quantum_ms / 1e3, pair_s=1e-9)
    kernels = graph.kernels_for(prefill(tokens, past))
    assert [kernel.index for kernel in kernels] == list(range(len(kernels)))
    assert [kernel.last for kernel in kernels] == [False] * (len(kernels) - 1) + [True]
    fused = [kernel for kernel in kernels if kernel.kind is KernelKind.LAYERS]
    split = [kernel for kernel in kernels if kernel.kind is not KernelKind.LAYERS]
    attended = [kernel.segments.start for kernel in split if kernel.kind is KernelKind.ATTENTION]
    assert attended + [layer for kernel in fused for layer in kernel.layers] == list(range(LAYERS))
    if split:
        assert tokens == graph.static_tokens
        assert [k.kind for k in split[::2]] == [KernelKind.TOKENS] * (len(attended) + 1)
    segments = [segment for kernel in fused for segment in kernel.segments]
    assert segments == list(range(segments[0], len(graph.bounds)))
    for kernel in fused:
        # Longer than the quantum only where a single compiled segment is.
        seconds = graph.cost_model.estimate(kernel, prefill(tokens, past), Role.DECODE).seconds
        assert seconds <= graph.quantum_s or len(kernel.segments) == 1


def test_quick_batches_are_few_large_kernels() -> None:
    graph = graph_of(*range(LAYERS), quantum_s=0.0045)
    assert [len(kernel.layers) for kernel in graph.kernels_for(BatchShape(1, 1, 0, 1))] == [4, 4, 4]
    assert len(graph_of(*range(LAYERS), quantum_s=0.02).kernels_for(BatchShape(1, 1, 0, 1))) == 1
    assert len(graph.kernels_for(prefill(256))) == LAYERS


def test_only_chunks_of_the_static_shape_are_split_and_only_with_a_prefill_xpu() -> None:
    graph = graph_of(0, 6, 11, groups=128)
    assert graph.static_tokens == 128
    kernels = graph.kernels_for(prefill(128))
    assert {role for kernel in kernels for role in kernel.roles} == {Role.PREFILL, Role.DECODE}
    assert kernels[-1].layers == range(11, 12)  # gathers rows, whose number is not static
    for alone in (
        graph.kernels_for(prefill(127)),
        graph.kernels_for(prefill(128), avoid=Role.PREFILL),
        graph_of(0, 6, 11).kernels_for(prefill(128)),
    ):
        assert {role for kernel in alone for role in kernel.roles} == {Role.DECODE}
    assert graph_of(0, groups=128).static_tokens is None  # in one piece it cannot be split


def test_chunks_are_as_long_as_the_quantum_allows_and_shrink_as_the_past_grows() -> None:
    graph = graph_of(*range(LAYERS), quantum_s=0.005, pair_s=1e-9)
    assert graph.chunk_tokens(0, 10_000) == 160  # one layer: 1 ms for 32 tokens, 5 for 160
    lengths = [graph.chunk_tokens(past, 10_000) for past in range(0, 200_000, 5_000)]
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[-1] == 32  # a block at least
    assert all(length % 32 == 0 for length in lengths)
    assert graph.chunk_tokens(0, 7) == 7


def test_static_chunks_come_before_the_margin() -> None:
    graph = graph_of(*range(LAYERS), groups=128, quantum_s=0.003, pair_s=1e-8)
    assert graph.chunk_tokens(0, 300) == 128
    assert graph.chunk_tokens(128, 172) == 128
    assert graph.chunk_tokens(256, 44) == 44
    assert graph.chunk_tokens(0, 127) == 96  # a margin does not break the quantum either
    assert graph.chunk_tokens(100_000, 300) == 32  # nor does the attention of a static chunk


def test_chunks_are_whole_tiles_where_one_fits() -> None:
    graph = graph_of(0, quantum_s=1.0, tile_tokens=64, tile_share=0.5)
    limits = {tokens: graph.estimate_seconds(prefill(tokens)) for tokens in (32, 64, 96, 128, 192, 256)}
    budgets = {tokens: graph.token_budget(0, 1000, limit * 1.001) for tokens, limit in limits.items()}
    assert budgets == {32: 32, 64: 64, 96: 64, 128: 128, 192: 192, 256: 256}
    assert graph.token_budget(0, 1000, limits[192] * 0.999) == 128
    assert graph.token_budget(0, 1000, 1e-9) == 32  # a prompt always advances by a block


def test_b_max_is_the_largest_batch_without_slowdown() -> None:
    graph = graph_of(*range(LAYERS))
    assert graph.max_decode_batch(1.0, [0] * 64) == 1
    assert graph.max_decode_batch(1.05, [0] * 64) == 32  # but for its row in the LM head, free up to 32
    assert graph.max_decode_batch(1.05, [0] * 8) == 8
    assert graph_of(0, segment_s=1.0).max_decode_batch(1.05, [0] * 64) == 64


@given(
    pasts=st.lists(st.integers(0, 5000), min_size=1, max_size=16),
    slowdown=st.floats(1.0, 3.0),
    data=st.data(),
)
def test_backfill_slows_a_step_down_no_more_than_it_may(
    pasts: list[int], slowdown: float, data: st.DataObject
) -> None:
    graph = graph_of(0, read_s=1e-7)
    alone = data.draw(st.integers(1, len(pasts)))
    batch = graph.max_decode_batch(slowdown, pasts, alone=alone)

    def seconds(sequences: int) -> float:
        return graph.decode_seconds(BatchShape(sequences, sequences, sum(pasts[:sequences]), sequences))

    assert alone <= batch <= len(pasts)
    assert seconds(batch) <= slowdown * seconds(alone) * (1 + 1e-6)
    assert batch == len(pasts) or seconds(batch + 1) > slowdown * seconds(alone)


@pytest.mark.parametrize(
    ("layer_s", "segment_s", "segments"),
    [
        (0.00001, 0.0001, 1),  # tiny: a whole batch fits the quantum
        (0.004, 0.0001, None),  # somewhere between
        (0.024, 0.0001, LAYERS),  # so large that one layer just fits
    ],
)
def test_granularity_comes_from_the_profile(layer_s: float, segment_s: float, segments: int | None) -> None:
    graph = choose(made_up_profile(LAYERS, layer_s=layer_s, segment_s=segment_s))
    if segments is not None:
        assert len(graph.bounds) == segments
    else:
        assert 1 < len(graph.bounds) < LAYERS
    for tokens in (graph.chunk_tokens(0, 10_000), 1):
        for kernel in graph.kernels_for(prefill(tokens)):
            assert graph.cost_model.estimate(kernel, prefill(tokens), Role.DECODE).seconds <= 0.025


def test_a_block_may_take_two_quanta_where_it_can_be_interrupted() -> None:
    """A decode step takes 24 ms, a block behind 1,024 tokens 24 ms and 12 ms of attention."""
    profile = made_up_profile(LAYERS, layer_s=0.002, pair_s=0.03e-6)
    assert len(choose(profile).bounds) > 1
    assert choose(profile, interruptible_s=0.1).bounds == (0,)


def test_one_segment_has_chunks_as_long_as_two() -> None:
    """Else it would have to pay for quicker decodes with slower prompts."""
    graph = choose(made_up_profile(LAYERS, layer_s=0.0018), interruptible_s=0.1)
    assert graph.bounds == (0,)
    assert graph.interruptible_s == 0.2
    assert graph.chunk_tokens(0, 10_000) == 256, "173 ms"


def test_a_profile_in_which_long_chunks_were_disturbed_does_not_make_chunks_short() -> None:
    """Chunks could be short in any case; how long they may be bounds memory only."""
    profile = made_up_profile(LAYERS, layer_s=0.0001)
    decode = profile.xpus[Role.DECODE]
    assert decode.layers is not None
    curve = Curve(counts=(1, 32, 128, 512), seconds=(0.0001, 0.0001, 0.0004, 0.0024))
    xpu = decode.model_copy(update={"layers": decode.layers.model_copy(update={"layer": curve})})
    profile = profile.model_copy(update={"xpus": {Role.DECODE: xpu}})
    assert choose(profile, max_chunk_tokens=512, interruptible_s=0.1).max_chunk_tokens == 512


def test_scratch_memory_is_bounded_also_in_a_chunk_without_past() -> None:
    profile = made_up_profile(LAYERS, layer_s=0.0004, read_s=0.5e-6, pair_s=0.1e-6)
    graph = choose(profile.model_copy(update={"activation_bytes": 100_000}), max_chunk_tokens=1024)
    assert len(graph.bounds) > 1
    assert graph.chunk_tokens(0, 10_000) * len(graph.bounds) * 100_000 <= 64 * 2**20


@pytest.mark.parametrize("groups", [None, 128])
@pytest.mark.parametrize("bounds", [(0,), (0, 6, 11), tuple(range(LAYERS))])
def test_kernels_that_run_at_once_need_no_more_memory_than_is_checked_before_loading(
    bounds: tuple[int, ...], groups: int | None
) -> None:
    """Agent.xpu §5.3: the memory footprint of a kernel can refuse none that the scheduler starts."""
    graph = graph_of(*bounds, groups=groups)
    most = dict.fromkeys(Role, 0)
    for tokens in range(1, graph.max_chunk_tokens + 1):
        shape = BatchShape(tokens, 1, 0, 1)
        for kernel in (*graph.kernels_for(shape), *graph.kernels_for(shape, avoid=Role.PREFILL)):
            role = kernel.roles[0]
            most[role] = max(most[role], graph.cost_model.estimate(kernel, shape, role).bytes)
    assert 0 < sum(most.values()) <= graph.footprint_bytes


@pytest.mark.parametrize(("max_chunk_tokens", "rounded"), [(1, 32), (32, 32), (33, 64)])
def test_the_longest_chunk_is_rounded_up_to_whole_blocks(max_chunk_tokens: int, rounded: int) -> None:
    profile = made_up_profile(LAYERS, layer_s=0.00001, segment_s=0.0001)
    graph = choose(profile, max_chunk_tokens=max_chunk_tokens)
    assert graph.chunk_tokens(0, 10_000) == graph.max_chunk_tokens == rounded


def test_missing_seams_are_respected_and_slow_kernels_warn() -> None:
    profile = made_up_profile(LAYERS, layer_s=0.02)
    with pytest.warns(RuntimeWarning, match=r"120 ms.*reactive"):
        assert choose(profile, {6}).bounds == (0, 6)
    with pytest.warns(RuntimeWarning, match="cannot be cut"):
        assert choose(profile, ()).bounds == (0,)


def test_where_chunks_are_split_every_seam_counts() -> None:
    graph = choose(made_up_profile(LAYERS, layer_s=0.0001, groups=128))
    assert (graph.bounds, graph.static_tokens) == (tuple(range(LAYERS)), 128)


def test_estimates_follow_the_costs_in_use() -> None:
    graph = graph_of(0, 6)
    decode = BatchShape(4, 1, 100, 1)
    before = graph.decode_seconds(decode), graph.longest_kernel_s(decode)
    graph.use_costs(made_up_profile(LAYERS, layer_s=0.002))
    after = graph.decode_seconds(decode), graph.longest_kernel_s(decode)
    assert after == pytest.approx(tuple(2 * seconds for seconds in before))
