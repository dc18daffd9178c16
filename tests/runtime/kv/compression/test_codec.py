from __future__ import annotations

import numpy as np
import openvino as ov
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.errors import ChunkFormatError
from agentrt.runtime.kv.compression.codec import BitPlan, BlockCodec
from agentrt.runtime.kv.compression.sections import pack, planes_of, unpack
from agentrt.runtime.model.kv_layout import CacheInput, KVLayout
from tests.runtime.kv.compression.made_up_blocks import (
    TOKENS,
    TYPES,
    formats_of,
    layout_of,
    random_rows,
    write,
)

ELEMENTS = sorted(TYPES)
ROUNDING = {"f32": 0.0, "bf16": 2.0**-8, "f16": 2.0**-11, "u8": 0.0}
"""Of a number in the arena, as a share of it."""


def decoded(
    codec: BlockCodec, rows: list[np.ndarray], level: int, positions: list[int]
) -> tuple[list[bytes], list[np.ndarray]]:
    payloads = codec.encode(rows, [level] * len(positions), positions)
    out = [np.zeros_like(row) for row in rows]
    codec.decode(payloads, level, out)
    return payloads, out


@pytest.mark.parametrize("element", ELEMENTS)
@settings(max_examples=30)
@given(data=st.data())
def test_a_number_comes_back_within_half_a_step(element: str, data: st.DataObject) -> None:
    layout = layout_of(element)
    bits = tuple(data.draw(st.lists(st.integers(2, 8), min_size=4, max_size=4)))
    codec = BlockCodec(layout, BitPlan({4: bits}, sink_blocks=0))
    rows = random_rows(layout, 3, data.draw(st.integers(0, 1000)))
    _, out = decoded(codec, rows, 4, [0, 1, 2])
    for format, width, before, after in zip(formats_of(layout), bits, rows, out, strict=True):
        axis = -2 if format.keys else -1
        numbers, found = format.numbers(before), format.numbers(after)
        low, high = numbers.min(axis, keepdims=True), numbers.max(axis, keepdims=True)
        if not format.keys:
            low, high = np.minimum(low, 0), np.maximum(high, 0)
        # Half a step of a coded scale; the zero point is coded, too.
        step = np.maximum((high - low) / (2**width - 1), np.abs(low) / 2047) * 1.05
        zero_point = 1 / 32 if format.keys else (2**width - 1) / 510
        bound = step * (0.5 + zero_point) + 2 * ROUNDING[element] * np.abs(numbers) + 1e-5
        assert (np.abs(found - numbers) <= bound).all()


@pytest.mark.parametrize("element", ELEMENTS)
def test_payloads_have_the_length_that_was_planned(element: str) -> None:
    layout = layout_of(element)
    codec = BlockCodec(layout)
    assert codec.levels == (0, 8, 4, 2)
    rows = random_rows(layout, 4)
    for level in codec.levels:
        payloads, _ = decoded(codec, rows, level, [0, 1, 2, 5])
        assert [len(each) for each in payloads] == [codec.payload_bytes(level, at) for at in (0, 1, 2, 5)]


def test_four_bits_take_less_than_half_of_a_quantised_arena() -> None:
    layout = layout_of("u8", layers=24, heads=2, size=64)
    codec = BlockCodec(layout)
    whole = codec.payload_bytes(0, 1)
    assert whole == layout.block_bytes
    assert codec.payload_bytes(4, 1) < 0.476 * whole
    assert codec.payload_bytes(2, 1) < 0.265 * whole


@pytest.mark.parametrize(("element", "level"), [*((element, 0) for element in ELEMENTS), ("u8", 8)])
def test_a_block_as_it_is_and_eight_bits_of_a_quantised_one_come_back(element: str, level: int) -> None:
    layout = layout_of(element)
    rows = random_rows(layout, 3)
    payloads, out = decoded(BlockCodec(layout), rows, level, [1, 2, 3])
    one_of_each = b"".join(row[1].tobytes() for row in rows)
    assert level or payloads[1] == one_of_each, "one block of each cache, in order"
    assert all(np.array_equal(row, back) for row, back in zip(rows, out, strict=True))


@pytest.mark.parametrize("element", ELEMENTS)
def test_first_blocks_are_stored_whole(element: str) -> None:
    layout = layout_of(element)
    codec = BlockCodec(layout, BitPlan.uniform(4, sink_blocks=2))
    rows = random_rows(layout, 3)
    low, out = decoded(codec, rows, 2, [0, 1, 2])
    high, whole = decoded(codec, rows, 8, [0, 1, 2])
    assert low[:2] == high[:2]
    assert low[2] != high[2]
    for row, back in zip(whole, out, strict=True):
        assert np.array_equal(row[:2], back[:2])


@pytest.mark.parametrize("element", ELEMENTS)
def test_a_constant_channel_survives_every_level(element: str) -> None:
    layout = layout_of(element)
    rows = [
        write(format, np.full((1, format.heads, TOKENS, format.size), 250 * format.keys, np.float32))
        for format in formats_of(layout)
    ]
    codec = BlockCodec(layout)
    for level in codec.levels:
        _, out = decoded(codec, rows, level, [3])
        for format, before, after in zip(formats_of(layout), rows, out, strict=True):
            assert np.allclose(format.numbers(after), format.numbers(before), rtol=2e-3, atol=1e-6)


def test_damaged_and_foreign_payloads_are_refused_before_anything_is_written() -> None:
    layout = layout_of("u8")
    codec, other = BlockCodec(layout), BlockCodec(layout, BitPlan.uniform(4, (4,)))
    rows = random_rows(layout, 2)
    good = codec.encode(rows, [4, 4], [1, 2])
    assert codec.fingerprint != other.fingerprint
    for bad in (
        b"",
        good[1][:-1],
        good[1] + b"x",
        b"xx" + good[1][2:],
        other.encode(rows, [4, 4], [1, 2])[1],
        good[1][:3] + b"\x03" + good[1][4:],
        codec.encode(rows, [2, 2], [1, 2])[1][:5] + good[1][5:],
    ):
        out = [np.full_like(row, 9) for row in rows]
        with pytest.raises(ChunkFormatError):
            codec.decode([good[0], bad], 4, out)
        assert all((row == 9).all() for row in out)
    with pytest.raises(ChunkFormatError, match="level 0"):
        codec.decode([good[0]], 0, [row[:1].copy() for row in rows])


def test_a_layout_that_only_the_device_knows_is_stored_as_it_is() -> None:
    shapes = {"key_cache.0": (2, 32, 24), "value_cache.0": (2, 32, 40)}
    layout = KVLayout(tuple(CacheInput(name, ov.Type.u8, shape) for name, shape in shapes.items()), 32)
    codec = BlockCodec(layout)
    assert codec.levels == (0,)
    rows = [np.random.default_rng(0).integers(0, 256, (2, size), np.uint8) for size in (1536, 2560)]
    _, out = decoded(codec, rows, 0, [0, 1])
    assert all(np.array_equal(row, back) for row, back in zip(rows, out, strict=True))


@given(
    bits=st.integers(1, 8), seed=st.integers(0, 2**32 - 1), octets=st.integers(1, 4), size=st.integers(1, 9)
)
def test_packing_takes_the_bits_it_names_and_loses_nothing(
    bits: int, seed: int, octets: int, size: int
) -> None:
    codes = np.random.default_rng(seed).integers(0, 2**bits, (2, 8 * octets, size), np.uint8)
    packed = pack(codes, bits)
    assert sum(plane.nbytes for plane in packed) * 8 == codes.size * bits
    out = np.full((2, 8 * octets, size + 3), 7, np.uint8)
    unpack(packed, bits, out[..., 2:-1])
    assert np.array_equal(out[..., 2:-1], codes)
    assert (out[..., [0, 1, -1]] == 7).all(), "nothing beside the codes is written"


@pytest.mark.parametrize(("bits", "widths"), [(8, [8]), (7, [4, 2, 1]), (5, [4, 1]), (3, [2, 1]), (2, [2])])
def test_planes_hold_whole_codes(bits: int, widths: list[int]) -> None:
    assert [width for width, _ in planes_of(bits)] == widths
