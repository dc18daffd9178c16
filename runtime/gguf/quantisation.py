"""Unpacks llama.cpp's quantisations to integer codes with one scale, and for some one offset, per group.

Every weight is ``code * scale + offset``. OpenVINO stores codes of 4 or 8 bits and computes with them as they
are; the sum over offsets is a small matrix product of its own (see ``graph.py``). Codes, scales and offsets
reproduce what llama.cpp computes with up to the rounding of float32: no quantisation loses accuracy. Those of
2 to 3 bits take 4 bits, those of 5 and 6 bits and the tables of IQ types take 8.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from gguf.constants import GGML_QUANT_SIZES
from gguf.constants import GGMLQuantizationType as Type
from gguf.quants import MXFP4, NVFP4, Q4_K, dequantize
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Bytes = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Groups:
    """Unpacked blocks."""

    codes: NDArray[np.int8]
    """``[blocks, elements of a block]``"""
    scales: Floats
    """``[blocks, groups of a block]``"""
    offsets: Floats | None = None
    """``[blocks, groups of a block]``; None where all are zero."""


@dataclass(frozen=True, slots=True)
class Quantisation:
    """How the weights of one of llama.cpp's types are stored in OpenVINO."""

    bits: int
    """Of a code: 4 or 8."""
    group: int
    """Weights that share a scale."""
    unpack: Callable[[Bytes], Groups]
    """From ``[blocks, bytes of a block]``."""
    has_offsets: bool = False


def _half(raw: Bytes) -> Floats:
    return raw.copy().view(np.float16).astype(np.float32)


def _nibbles(raw: Bytes, run: int) -> Bytes:
    """Runs of ``run`` low halves of bytes, each followed by the high halves of the same bytes."""
    split = raw.reshape(len(raw), -1, 1, run) >> np.array([[0], [4]], np.uint8)
    return (split & np.uint8(15)).reshape(len(raw), -1)


def _fifth_bits(raw: Bytes) -> Bytes:
    """The fifth bit, as 16, of 32 codes from 4 bytes."""
    return np.unpackbits(raw, axis=1, bitorder="little") << np.uint8(4)


def _shifted(codes: Bytes, zero: int) -> NDArray[np.int8]:
    return codes.view(np.int8) - np.int8(zero)


def _q4_0(blocks: Bytes) -> Groups:
    return Groups(_shifted(_nibbles(blocks[:, 2:], 16), 8), _half(blocks[:, :2]))


def _q4_1(blocks: Bytes) -> Groups:
    scales = _half(blocks[:, :2])
    return Groups(
        _shifted(_nibbles(blocks[:, 4:], 16), 8), scales, _half(blocks[:, 2:4]) + np.float32(8) * scales
    )


def _q5_0(blocks: Bytes) -> Groups:
    codes = _nibbles(blocks[:, 6:], 16) | _fifth_bits(blocks[:, 2:6])
    return Groups(_shifted(codes, 16), _half(blocks[:, :2]))


def _q5_1(blocks: Bytes) -> Groups:
    codes = _nibbles(blocks[:, 8:], 16) | _fifth_bits(blocks[:, 4:8])
    scales = _half(blocks[:, :2])
    return Groups(_shifted(codes, 16), scales, _half(blocks[:, 2:4]) + np.float32(16) * scales)


def _q8_0(blocks: Bytes) -> Groups:
    return Groups(blocks[:, 2:].view(np.int8), _half(blocks[:, :2]))


def _q2_k(blocks: Bytes) -> Groups:
    scales = _half(blocks[:, 80:82]) * (blocks[:, :16] & np.uint8(15))
    minima = _half(blocks[:, 82:84]) * (blocks[:, :16] >> np.uint8(4))
    shifts = np.array([[0], [2], [4], [6]], np.uint8)
    codes = (blocks[:, 16:80].reshape(len(blocks), 2, 1, 32) >> shifts) & np.uint8(3)
    return Groups(_shifted(codes.reshape(len(blocks), 256), 2), scales, np.float32(2) * scales - minima)


def _q3_k(blocks: Bytes) -> Groups:
    low = _nibbles(blocks[:, 96:104], 8)
    high = (blocks[:, None, 104:108] >> np.array([[0], [2], [4], [6]], np.uint8)) & np.uint8(3)
    sixteenths = _shifted(low | (high.reshape(len(blocks), 16) << np.uint8(4)), 32)
    shifts = np.array([[0], [2], [4], [6]], np.uint8)
    codes = (blocks[:, 32:96].reshape(len(blocks), 2, 1, 32) >> shifts) & np.uint8(3)
    bits = (blocks[:, None, :32] >> np.arange(8, dtype=np.uint8)[:, None]) & np.uint8(1)
    codes = codes.reshape(len(blocks), 256) | (bits.reshape(len(blocks), 256) << np.uint8(2))
    return Groups(_shifted(codes, 4), _half(blocks[:, 108:110]) * sixteenths)


def _k_scales(blocks: Bytes) -> tuple[Floats, Floats]:
    """Scales and minima of Q4_K and Q5_K, 6 bits each."""
    scales, minima = Q4_K.get_scale_min(blocks[:, 4:16].copy())
    return _half(blocks[:, :2]) * scales, _half(blocks[:, 2:4]) * minima


def _q4_k(blocks: Bytes) -> Groups:
    scales, minima = _k_scales(blocks)
    return Groups(_shifted(_nibbles(blocks[:, 16:], 32), 8), scales, np.float32(8) * scales - minima)


def _q5_k(blocks: Bytes) -> Groups:
    scales, minima = _k_scales(blocks)
    bits = (blocks[:, None, 16:48] >> np.arange(8, dtype=np.uint8)[:, None]) & np.uint8(1)
    codes = _nibbles(blocks[:, 48:], 32) | (bits.reshape(len(blocks), 256) << np.uint8(4))
    return Groups(_shifted(codes, 16), scales, np.float32(16) * scales - minima)


def _q6_k(blocks: Bytes) -> Groups:
    shifts = np.array([[0], [2], [4], [6]], np.uint8)
    high = (blocks[:, 128:192].reshape(len(blocks), 2, 1, 32) >> shifts) & np.uint8(3)
    codes = _nibbles(blocks[:, :128], 64) | (high.reshape(len(blocks), 256) << np.uint8(4))
    return Groups(_shifted(codes, 32), _half(blocks[:, 208:210]) * blocks[:, 192:208].view(np.int8))


def _from_table(type: Type, scales: Callable[[Bytes], Floats]) -> Callable[[Bytes], Groups]:
    """Unpack a type whose weights are entries of a table of small integers, times a scale."""

    def unpack(blocks: Bytes) -> Groups:
        values = dequantize(blocks, type)
        found = scales(blocks).astype(np.float32)
        grouped = values.reshape(len(blocks), found.shape[1], -1)
        codes = np.rint(grouped / np.where(found == 0, np.float32(1), found)[..., None])
        return Groups(codes.reshape(values.shape).astype(np.int8), found)

    return unpack


def _iq4_xs_scales(blocks: Bytes) -> Floats:
    high = (blocks[:, 2:4].copy().view(np.uint16) >> np.arange(0, 16, 2, dtype=np.uint16)) & np.uint16(3)
    low = (blocks[:, 4:8, None] >> np.array([0, 4], np.uint8)) & np.uint8(15)
    sixteenths = low.reshape(len(blocks), 8) | (high.astype(np.uint8) << np.uint8(4))
    return _half(blocks[:, :2]) * _shifted(sixteenths, 32)


def _iq2_xxs_scales(blocks: Bytes) -> Floats:
    words = blocks[:, 2:].copy().view(np.uint32)[:, 1::2]
    # Entries of the grid are odd multiples of an eighth of d.
    return _half(blocks[:, :2]) * (np.float32(0.5) + (words >> 28)) * np.float32(0.25)


def _nibble_scales(blocks: Bytes, begin: int) -> Floats:
    halves = (blocks[:, begin:, None] >> np.array([0, 4], np.uint8)) & np.uint8(15)
    return halves.reshape(len(blocks), -1).astype(np.float32)


def _iq2_scales(begin: int) -> Callable[[Bytes], Floats]:
    def scales(blocks: Bytes) -> Floats:
        return _half(blocks[:, :2]) * (np.float32(0.5) + _nibble_scales(blocks, begin)) * np.float32(0.25)

    return scales


def _iq3_xxs_scales(blocks: Bytes) -> Floats:
    words = blocks[:, 66:].copy().view(np.uint32)
    return _half(blocks[:, :2]) * (np.float32(0.5) + (words >> 28)) * np.float32(0.5)


def _iq3_s_scales(blocks: Bytes) -> Floats:
    return _half(blocks[:, :2]) * (1 + 2 * _nibble_scales(blocks, 106))


def _iq1_s_scales(blocks: Bytes) -> Floats:
    words = blocks[:, 34:].copy().view(np.uint16)
    # Entries of the grid are shifted by an eighth.
    return _half(blocks[:, :2]) * (2 * ((words >> 12) & 7) + 1) * np.float32(0.125)


def _iq1_m_scales(blocks: Bytes) -> Floats:
    words = blocks[:, 48:].copy().view(np.uint16)
    bits = (words & np.uint16(0xF000)) >> np.array([12, 8, 4, 0], np.uint16)
    whole = np.bitwise_or.reduce(bits, axis=1, keepdims=True).view(np.float16).astype(np.float32)
    threes = (words[:, :, None] >> np.array([0, 3, 6, 9], np.uint16)) & np.uint16(7)
    return whole * (2 * threes.reshape(len(blocks), 16) + 1) * np.float32(0.125)


def _first_half(blocks: Bytes) -> Floats:
    return _half(blocks[:, :2])


def _last_half(blocks: Bytes) -> Floats:
    return _half(blocks[:, -2:])


def _mxfp4_scales(blocks: Bytes) -> Floats:
    return np.asarray(MXFP4.e8m0_to_fp32_half(blocks[:, :1]), np.float32)


def _nvfp4_scales(blocks: Bytes) -> Floats:
    return np.asarray(NVFP4.ue4m3_to_fp32(blocks[:, :4]), np.float32)


def _table(type: Type, bits: int, group: int, scales: Callable[[Bytes], Floats]) -> Quantisation:
    return Quantisation(bits, group, _from_table(type, scales))


QUANTISATIONS: Final[Mapping[Type, Quantisation]] = {
    Type.Q4_0: Quantisation(4, 32, _q4_0),
    Type.Q4_1: Quantisation(4, 32, _q4_1, has_offsets=True),
    Type.Q5_0: Quantisation(8, 32, _q5_0),
    Type.Q5_1: Quantisation(8, 32, _q5_1, has_offsets=True),
    Type.Q8_0: Quantisation(8, 32, _q8_0),
    Type.Q2_K: Quantisation(4, 16, _q2_k, has_offsets=True),
    Type.Q3_K: Quantisation(4, 16, _q3_k),
    Type.Q4_K: Quantisation(4, 32, _q4_k, has_offsets=True),
    Type.Q5_K: Quantisation(8, 32, _q5_k, has_offsets=True),
    Type.Q6_K: Quantisation(8, 16, _q6_k),
    Type.IQ4_NL: _table(Type.IQ4_NL, 8, 32, _first_half),
    Type.IQ4_XS: _table(Type.IQ4_XS, 8, 32, _iq4_xs_scales),
    Type.IQ3_XXS: _table(Type.IQ3_XXS, 8, 32, _iq3_xxs_scales),
    Type.IQ3_S: _table(Type.IQ3_S, 8, 32, _iq3_s_scales),
    Type.IQ2_XXS: _table(Type.IQ2_XXS, 8, 32, _iq2_xxs_scales),
    Type.IQ2_XS: _table(Type.IQ2_XS, 8, 16, _iq2_scales(66)),
    Type.IQ2_S: _table(Type.IQ2_S, 8, 16, _iq2_scales(74)),
    Type.IQ1_S: _table(Type.IQ1_S, 8, 32, _iq1_s_scales),
    Type.IQ1_M: _table(Type.IQ1_M, 8, 16, _iq1_m_scales),
    Type.TQ1_0: _table(Type.TQ1_0, 4, 256, _last_half),
    Type.TQ2_0: _table(Type.TQ2_0, 4, 256, _last_half),
    Type.MXFP4: _table(Type.MXFP4, 8, 32, _mxfp4_scales),
    Type.NVFP4: _table(Type.NVFP4, 8, 16, _nvfp4_scales),
}
"""The quantised types of matrices that can be converted."""


def unpack(type: Type, rows: Bytes) -> Groups:
    """Unpack ``[rows, bytes of a row]`` to codes ``[rows, columns]``; scales, offsets ``[rows, groups]``."""
    found = QUANTISATIONS[type].unpack(np.ascontiguousarray(rows).reshape(-1, GGML_QUANT_SIZES[type][1]))
    return Groups(
        found.codes.reshape(len(rows), -1),
        found.scales.reshape(len(rows), -1),
        None if found.offsets is None else found.offsets.reshape(len(rows), -1),
    )


def pack_nibbles(codes: NDArray[np.int8]) -> Bytes:
    """Pack 4-bit codes as OpenVINO does: the first of two in the low half of a byte."""
    pairs = codes.view(np.uint8)
    return (pairs[..., ::2] & np.uint8(15)) | (pairs[..., 1::2] << np.uint8(4))
