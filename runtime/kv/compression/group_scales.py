"""Scale and zero point of groups of quantised values, in two or three bytes a group.

A value is ``scale * (code - zero point)``. Scales are stored as 16ths of an octave below the largest scale of
their cache, rounded up, zero points in fractions of a step.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Bytes = NDArray[np.uint8]

_PER_OCTAVE: Final = 16
_LARGEST: Final = 255
_SCALES: Final = np.exp2((np.arange(_LARGEST + 1) - _LARGEST) / _PER_OCTAVE).astype(np.float32)
_SMALLEST: Final = np.float32(1e-30)

_FRACTIONS: Final = 16
"""Zero points of keys are in 16ths of a step: they may be far from the codes, as a channel's mean may be."""
MOST_ZERO_POINT: Final = 2**15 / _FRACTIONS - 1
"""The largest zero point that :func:`encode_wide_zero_points` stores, either way."""


def encode_scales(scales: Floats) -> tuple[Floats, Bytes, Floats]:
    """Return for ``scales`` ``[…, caches, groups]`` their bases ``[…, caches]``, codes and coded values.

    A coded value is between its scale and 1.05 times that, so that no value leaves its range.
    """
    bases = np.maximum(scales.max(-1), _SMALLEST)
    with np.errstate(divide="ignore"):
        octaves = np.log2(scales / bases[..., None])
    codes = np.clip(np.ceil(octaves * _PER_OCTAVE - 1e-4) + _LARGEST, 0, _LARGEST).astype(np.uint8)
    return bases, codes, decode_scales(bases, codes)


def decode_scales(bases: Floats, codes: Bytes) -> Floats:
    """Return the coded values of scales."""
    scales: Floats = _SCALES[codes]
    scales *= bases[..., None]
    return scales


def encode_wide_zero_points(zero_points: Floats) -> NDArray[np.int16]:
    """Encode zero points of up to :data:`MOST_ZERO_POINT` either way, in two bytes each."""
    return np.rint(zero_points * _FRACTIONS).astype(np.int16)


def decode_wide_zero_points(codes: NDArray[np.int16]) -> Floats:
    """Return the zero points of :func:`encode_wide_zero_points`."""
    return codes.astype(np.float32) * np.float32(1 / _FRACTIONS)


def encode_narrow_zero_points(zero_points: Floats, bits: int) -> Bytes:
    """Encode zero points within the codes, ``0 … 2**bits - 1``, in one byte each."""
    codes: Bytes = np.rint(zero_points * (_LARGEST / ((1 << bits) - 1))).astype(np.uint8)
    return codes


def decode_narrow_zero_points(codes: Bytes, bits: int) -> Floats:
    """Return the zero points of :func:`encode_narrow_zero_points`."""
    return codes.astype(np.float32) * np.float32(((1 << bits) - 1) / _LARGEST)
