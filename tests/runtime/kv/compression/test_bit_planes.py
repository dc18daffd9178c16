from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.runtime.kv.compression.bit_planes import pack, planes_of, unpack


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
