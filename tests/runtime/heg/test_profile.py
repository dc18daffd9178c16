from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from agentrt.runtime.heg.kernel import BatchShape, Kernel, KernelKind, Role
from agentrt.runtime.heg.profile import Curve, LayerCosts, Profile, fit_roofline
from tests.runtime.tiny import made_up_profile


def layers_kernel(first: int, end: int, *, segments: int = 1, last: bool = False) -> Kernel:
    return Kernel(0, KernelKind.LAYERS, range(segments), range(first, end), (Role.DECODE,), last)


def seconds(profile: Profile, kernel: Kernel, shape: BatchShape, role: Role = Role.DECODE) -> float:
    return profile.estimate(kernel, shape, role).seconds


def test_curve_is_linear_between_measured_counts_and_a_roofline_beyond() -> None:
    curve = Curve(counts=(1, 4, 8), seconds=(2.0, 5.0, 7.0))
    assert [curve.at(count, 10.0) for count in (1, 2, 4, 6, 8, 9)] == [2.0, 3.0, 5.0, 6.0, 7.0, 17.0]


@given(st.lists(st.integers(1, 1000), min_size=1, unique=True).map(sorted), st.integers(1, 2000))
def test_monotone_points_give_a_monotone_curve(counts: list[int], at: int) -> None:
    curve = Curve(counts=tuple(counts), seconds=tuple(float(count) for count in counts))
    assert curve.at(at, 1.0) <= curve.at(at + 1, 1.0)


@pytest.mark.parametrize(
    "points",
    [
        {"counts": [2, 1], "seconds": [1, 2]},
        {"counts": [1, 2], "seconds": [1]},
        {"counts": [], "seconds": []},
    ],
)
def test_a_curve_needs_one_time_for_each_count(points: dict[str, list[int]]) -> None:
    with pytest.raises(ValidationError):
        Curve.model_validate(points)


def tiled(share: float) -> LayerCosts:
    """A layer that takes 1 ms to 32 tokens, 2 to 64, 4 to 128, and begins a tile for ``share``."""
    costs = made_up_profile(4, tile_tokens=64, tile_share=share).xpus[Role.DECODE].layers
    assert costs is not None
    return costs


@pytest.mark.parametrize(("share", "just_begun"), [(0.5, 3.03125e-3), (1.0, 4e-3), (0.0, 2.0625e-3)])
def test_a_tile_costs_its_share_with_its_first_token(share: float, just_begun: float) -> None:
    costs = tiled(share)
    seconds = [costs.layer_s(tokens, 0.0) for tokens in (16, 32, 64, 128, 66)]
    assert seconds == pytest.approx([0.001, 0.001, 0.002, 0.004, just_begun])
    assert costs.layer_s(33, 0.0) == costs.layer.at(33, 0.0)  # the first tile has no beginning


@given(st.integers(1, 400), st.floats(0, 1))
def test_more_tokens_never_take_less_with_tiles(tokens: int, share: float) -> None:
    costs = tiled(share)
    assert costs.layer_s(tokens, 1e-5) <= costs.layer_s(tokens + 1, 1e-5) * (1 + 1e-9)


def test_layers_add_up_and_each_compiled_segment_costs() -> None:
    profile = made_up_profile(4, layer_s=0.001, segment_s=0.0001, read_s=1e-6, pair_s=1e-8)
    shape = BatchShape(32, 1, 100, 0)
    each = 0.001 + 100 * 1e-6 + 32 * 100 * 1e-8
    assert seconds(profile, layers_kernel(0, 3), shape) == pytest.approx(0.0001 + 3 * each)
    assert seconds(profile, layers_kernel(0, 3, segments=3), shape) == pytest.approx(0.0003 + 3 * each)


def test_annotations_of_a_decode_and_of_a_prefill_kernel() -> None:
    profile = made_up_profile(4)
    decode = profile.estimate(layers_kernel(0, 4, last=True), BatchShape(1, 1, 1000, 1), Role.DECODE)
    # 45 MB of weights and 4 * 1000 * 200 bytes of keys and values in 4 ms, of 20 GB/s.
    assert decode.bandwidth_share == pytest.approx((45e6 + 0.8e6) / 0.004 / 2e10)
    assert decode.bytes == 45_000_000 + 10_000
    assert decode.measured
    assert decode.joules == pytest.approx(10.0 * decode.seconds)
    prefill = profile.estimate(layers_kernel(0, 4), BatchShape(256, 1, 0, 0), Role.DECODE)
    assert prefill.bandwidth_share < decode.bandwidth_share
    assert not profile.estimate(layers_kernel(0, 4), BatchShape(300, 1, 0, 0), Role.DECODE).measured


def test_attention_of_a_batch_costs_what_its_sequences_read() -> None:
    profile = made_up_profile(1, layer_s=0.0, read_s=1e-6, pair_s=1e-6)
    alone = seconds(profile, layers_kernel(0, 1), BatchShape(1, 1, 500, 0))
    assert seconds(profile, layers_kernel(0, 1), BatchShape(4, 4, 2000, 0)) == pytest.approx(4 * alone)
    assert seconds(profile, layers_kernel(0, 1), BatchShape(4, 1, 500, 0)) == pytest.approx(2.5 * alone)


def test_static_groups_belong_to_the_xpu_that_has_them() -> None:
    profile = made_up_profile(4, layer_s=0.002, groups=64)
    group = Kernel(0, KernelKind.TOKENS, range(1, 2), range(2), (Role.PREFILL,), False)
    attention = Kernel(1, KernelKind.ATTENTION, range(1), range(1), (Role.DECODE,), False)
    shape = BatchShape(64, 1, 0, 0)
    assert seconds(profile, group, shape, Role.PREFILL) == 0.002
    assert profile.estimate(attention, shape, Role.DECODE).bytes == 64 * 10_000
    with pytest.raises(KeyError, match="token-level"):
        profile.estimate(group, shape, Role.DECODE)
    with pytest.raises(KeyError, match="token-level"):
        profile.estimate(attention, shape, Role.PREFILL)


def test_a_profile_needs_an_xpu_that_decodes() -> None:
    stored = made_up_profile(2, groups=64).model_dump(mode="json")
    assert Profile.model_validate(stored) == made_up_profile(2, groups=64)
    del stored["xpus"]["decode"]
    with pytest.raises(ValidationError, match="decodes"):
        Profile.model_validate(stored)


@given(
    st.floats(1e9, 1e13),
    st.floats(1e9, 1e12),
    st.lists(st.integers(1, 4096), min_size=2, unique=True),
)
def test_roofline_is_recovered_from_its_runs(peak: float, bandwidth: float, tokens: list[int]) -> None:
    """Both roofs are touched if one run is bound by each resource; no run lies above either."""
    flops, weights = 1e7, 1e7
    work = [(count * flops, weights, max(count * flops / peak, weights / bandwidth)) for count in tokens]
    found_peak, found_bandwidth = fit_roofline(work)
    assert found_peak <= peak * (1 + 1e-9)
    assert found_bandwidth <= bandwidth * (1 + 1e-9)
    for arithmetic, traffic, taken in work:
        assert taken >= max(arithmetic / found_peak, traffic / found_bandwidth) * (1 - 1e-9)
    bound = {count * flops / peak > weights / bandwidth for count in tokens}
    if bound == {True, False}:
        assert found_peak == pytest.approx(peak)
        assert found_bandwidth == pytest.approx(bandwidth)
