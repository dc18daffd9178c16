from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agentrt.runtime.kv.compression.codec import BitPlan, BlockCodec
from agentrt.runtime.kv.compression.compression import ContextCompression, stored_as_they_are
from tests.runtime.kv.compression.made_up_blocks import layout_of

CODEC = BlockCodec(layout_of("u8", layers=4, size=64))
LOSSES = {8: 0.0, 4: 0.004, 2: 0.05}


def bytes_of(levels: list[int], positions: list[int]) -> int:
    return sum(CODEC.payload_bytes(level, at) for level, at in zip(levels, positions, strict=True))


@given(
    densities=st.lists(st.floats(0, 1), min_size=1, max_size=60),
    first=st.integers(0, 5),
    ratio=st.floats(0.3, 1),
)
def test_chunks_have_the_ratio_among_themselves(densities: list[float], first: int, ratio: float) -> None:
    positions = list(range(first, first + len(densities)))
    levels = ContextCompression(CODEC, LOSSES, ratio).levels(densities, positions)
    whole = CODEC.payload_bytes(8, 9)
    within = ratio * whole * len(levels)
    least = bytes_of([2] * len(levels), positions)
    assert bytes_of(levels, positions) <= max(within, least)
    assert first or levels[0] == 8, "the first block is protected"


def test_levels_that_the_model_does_not_bear_are_not_used() -> None:
    compression = ContextCompression(CODEC, {8: 0.0, 4: 0.004}, 0.3)
    assert compression.levels([0.5, 0.1, 0.1], [4, 5, 6]) == [4, 4, 4]


def test_without_levels_chunks_are_stored_as_they_are() -> None:
    codec = BlockCodec(layout_of("u8"), BitPlan({}))
    assert ContextCompression(codec, {}, 0.5).levels([0.5, 0.1], [0, 1]) == [0, 0]
    assert stored_as_they_are([0.5, 0.1], [0, 1]) == [0, 0]


def test_chunks_that_were_not_measured_go_by_their_positions() -> None:
    compression = ContextCompression(CODEC, LOSSES, 0.5)
    positions = list(range(3, 23))
    levels = compression.levels([0.0] * 20, positions)
    assert levels == sorted(levels)
    assert bytes_of(levels, positions) <= 0.5 * 20 * CODEC.payload_bytes(8, 9)
