"""Weights of llama.cpp's quantisations as integer codes, each group of which has a scale.

OpenVINO stores codes of 4 or 8 bits and computes with them as they are. Weights of any type are rounded to
8 bits in groups of 128, the layout in which the CPU plugin is fastest; the rounding adds less to a model's
perplexity than can be measured. Weights of 4 bits can keep their codes instead, with scales and for some
types offsets of groups of 32, which reproduce what llama.cpp computes with up to the rounding of float32. The
sum over offsets is a small matrix product of its own (see ``graph.py``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from gguf.constants import GGML_QUANT_SIZES
from gguf.constants import GGMLQuantizationType as Type
from gguf.quants import Q4_K
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Bytes = NDArray[np.uint8]


FOUR_BIT_GROUP: Final = 32
"""Weights that share a scale in all types of 4-bit codes."""
_EIGHT_BIT_GROUP: Final = 128
"""The most activations that the CPU plugin quantises with one scale at full speed (dynamic quantisation)."""


@dataclass(frozen=True, slots=True)
class Groups:
    """Weights as codes: ``code * scale + offset``."""

    codes: NDArray[np.int8]
    """``[rows, columns]``"""
    scales: Floats
    """``[rows, groups]``"""
    offsets: Floats | None = None
    """``[rows, groups]``; None where all are zero."""


@dataclass(frozen=True, slots=True)
class FourBits:
    """How the blocks of one of llama.cpp's types of 4 bits are unpacked."""

    unpack: Callable[[Bytes], Groups]
    """From ``[blocks, bytes of a block]``, with a block in place of a row."""
    has_offsets: bool = False


def _half(raw: Bytes) -> Floats:
    return raw.copy().view(np.float16).astype(np.float32)


def _nibbles(raw: Bytes, run: int) -> Bytes:
    """Runs of ``run`` low halves of bytes, each followed by the high halves of the same bytes."""
    split = raw.reshape(len(raw), -1, 1, run) >> np.array([[0], [4]], np.uint8)
    return (split & np.uint8(15)).reshape(len(raw), -1)


def _shifted(codes: Bytes, zero: int) -> NDArray[np.int8]:
    return codes.view(np.int8) - np.int8(zero)


def _q4_0(blocks: Bytes) -> Groups:
    return Groups(_shifted(_nibbles(blocks[:, 2:], 16), 8), _half(blocks[:, :2]))


def _q4_1(blocks: Bytes) -> Groups:
    scales = _half(blocks[:, :2])
    return Groups(
        _shifted(_nibbles(blocks[:, 4:], 16), 8), scales, _half(blocks[:, 2:4]) + np.float32(8) * scales
    )


def _k_scales(blocks: Bytes) -> tuple[Floats, Floats]:
    """Scales and minima of Q4_K, 6 bits each."""
    scales, minima = Q4_K.get_scale_min(blocks[:, 4:16].copy())
    return _half(blocks[:, :2]) * scales, _half(blocks[:, 2:4]) * minima


def _q4_k(blocks: Bytes) -> Groups:
    scales, minima = _k_scales(blocks)
    return Groups(_shifted(_nibbles(blocks[:, 16:], 32), 8), scales, np.float32(8) * scales - minima)


FOUR_BITS: Final[Mapping[Type, FourBits]] = {
    Type.Q4_0: FourBits(_q4_0),
    Type.Q4_1: FourBits(_q4_1, has_offsets=True),
    Type.Q4_K: FourBits(_q4_k, has_offsets=True),
}
"""The types whose codes have 4 bits, in groups of :data:`FOUR_BIT_GROUP`."""

QUANTISED: Final = frozenset(
    {
        *FOUR_BITS,
        *(Type.Q5_0, Type.Q5_1, Type.Q8_0, Type.Q2_K, Type.Q3_K, Type.Q5_K, Type.Q6_K),
        *(Type.IQ4_NL, Type.IQ4_XS, Type.IQ3_XXS, Type.IQ3_S, Type.IQ2_XXS, Type.IQ2_XS, Type.IQ2_S),
        *(Type.IQ1_S, Type.IQ1_M, Type.TQ1_0, Type.TQ2_0, Type.MXFP4, Type.NVFP4),
    }
)
"""The quantised types of matrices that can be converted."""


def eight_bit_group(columns: int) -> int:
    """Return how many of a row's ``columns`` share a scale of 8-bit codes: 128, or what divides the row."""
    return math.gcd(columns, _EIGHT_BIT_GROUP)


def to_eight_bits(values: Floats) -> Groups:
    """Round weights ``[rows, columns]`` to codes from -127 to 127 with a scale for each group."""
    rows, columns = values.shape
    grouped = values.reshape(rows, -1, eight_bit_group(columns))
    scales = np.abs(grouped).max(axis=2, keepdims=True) / np.float32(127)
    codes = np.rint(grouped / np.where(scales == 0, np.float32(1), scales))
    return Groups(codes.astype(np.int8).reshape(rows, columns), scales.reshape(rows, -1))


def unpack_four_bits(type: Type, rows: Bytes) -> Groups:
    """Unpack ``[rows, bytes of a row]`` of one of :data:`FOUR_BITS`."""
    found = FOUR_BITS[type].unpack(np.ascontiguousarray(rows).reshape(-1, GGML_QUANT_SIZES[type][1]))
    return Groups(
        found.codes.reshape(len(rows), -1),
        found.scales.reshape(len(rows), -1),
        None if found.offsets is None else found.offsets.reshape(len(rows), -1),
    )


def pack_nibbles(codes: NDArray[np.int8]) -> Bytes:
    """Pack 4-bit codes as OpenVINO does: the first of two in the low half of a byte."""
    pairs = codes.view(np.uint8)
    return (pairs[..., ::2] & np.uint8(15)) | (pairs[..., 1::2] << np.uint8(4))
