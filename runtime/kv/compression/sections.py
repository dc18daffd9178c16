"""Sections of a payload: caches of one format and one number of bits, coded together.

A section's bytes are, each for all its caches, the bases of the scales, the codes of the scales, the zero
points, and the planes of the codes of the numbers. A quantised block of 8 bits is copied instead.

A value is ``scale * (code - zero point)``. Scales are stored as 16ths of an octave below the largest scale of
their cache, rounded up, zero points in fractions of a step: two or three bytes a group. Codes of fewer than 8
bits are packed into bytes along the tokens of a block.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from .block_formats import BlockFormat, Bytes, Floats

_COPIED_BITS: Final = 8
_PIECE: Final = 2**18
"""Numbers that are coded together, at most."""
_WIDTHS: Final = (4, 2, 1)
_PER_OCTAVE: Final = 16
_LARGEST: Final = 255
_SCALES: Final = np.exp2((np.arange(_LARGEST + 1) - _LARGEST) / _PER_OCTAVE).astype(np.float32)
_SMALLEST: Final = np.float32(1e-30)

_FRACTIONS: Final = 16
"""Zero points of keys are in 16ths of a step, and two bytes: they may be far from the codes, as a channel's
mean may be. Those of values are one of their codes, in one byte."""
_MOST_ZERO_POINT: Final = 2**15 / _FRACTIONS - 1
"""The largest zero point of keys, either way."""


@dataclass(frozen=True, slots=True)
class Section:
    """Codes blocks of some caches."""

    format: BlockFormat
    bits: int
    caches: tuple[int, ...]
    """Places of the caches among all of the layout."""

    @property
    def bytes(self) -> int:
        """Bytes of one block."""
        if self._copies:
            return len(self.caches) * self.format.block_bytes
        heads, groups = self.format.groups
        codes = self.format.tokens * self.format.size * self.bits // 8
        return len(self.caches) * (4 + heads * (groups * (3 if self.format.keys else 2) + codes))

    def encode(self, blocks: Bytes, payloads: Bytes) -> None:
        """Encode ``blocks`` ``[blocks, caches, bytes of a block]`` into ``payloads`` ``[blocks, bytes]``."""
        if self._copies:
            payloads[...] = blocks.reshape(payloads.shape)
            return
        for piece in self._pieces(len(blocks)):
            self._encode(blocks[piece], payloads[piece])

    def decode(self, payloads: Bytes) -> Bytes:
        """Return the blocks ``[blocks, caches, bytes of a block]`` of ``payloads``."""
        shape = (len(payloads), len(self.caches), self.format.block_bytes)
        if self._copies:
            return payloads.reshape(shape)
        blocks = np.empty(shape, np.uint8)
        for piece in self._pieces(len(blocks)):
            self._decode(payloads[piece], blocks[piece])
        return blocks

    def _pieces(self, blocks: int) -> Iterator[slice]:
        """Yield blocks that are coded together, so few that the processor's cache has what is computed."""
        format = self.format
        step = max(1, _PIECE // (len(self.caches) * format.heads * format.tokens * format.size))
        return (slice(begin, begin + step) for begin in range(0, blocks, step))

    def _encode(self, blocks: Bytes, payloads: Bytes) -> None:
        numbers, scales, zero_points = self._numbers(blocks)
        parts = self._parts(payloads)
        coded, offsets = self._write_groups(parts, numbers, scales, zero_points)
        factors = scales / coded
        codes = numbers * self.format.spread(factors)
        codes += self.format.spread(offsets - zero_points * factors + np.float32(0.5))
        np.clip(codes, 0, (1 << self.bits) - 1, out=codes)
        for part, plane in zip(parts.planes, pack(codes.astype(np.uint8), self.bits), strict=True):
            part[...] = plane

    def _decode(self, payloads: Bytes, blocks: Bytes) -> None:
        parts = self._parts(payloads)
        coded = parts.scales.reshape(*blocks.shape[:2], -1)
        scales = decode_scales(parts.bases, coded).reshape(parts.scales.shape)
        offsets = self._zero_points(parts)
        if self.format.quantised:
            unpack(parts.planes, self.bits, self.format.codes(blocks))
            own_scales, own_zero_points = self.format.parameters(blocks)
            own_scales[...], own_zero_points[...] = scales, offsets
            return
        codes = np.empty(
            (*blocks.shape[:2], self.format.heads, self.format.tokens, self.format.size), np.uint8
        )
        unpack(parts.planes, self.bits, codes)
        numbers = codes.astype(np.float32)
        numbers -= self.format.spread(offsets)
        numbers *= self.format.spread(scales)
        self.format.write_numbers(numbers, blocks)

    @property
    def _copies(self) -> bool:
        return self.format.quantised and self.bits == _COPIED_BITS

    def _numbers(self, blocks: Bytes) -> tuple[NDArray[Any], Floats, Floats]:
        """Return what to code, and the scales and zero points that it has.

        Codes of a quantised block are coded again as they are: only their scales are computed as numbers.
        """
        if self.format.quantised:
            return self.format.codes(blocks), *self.format.parameters(blocks)
        return self.format.numbers(blocks), np.ones((), np.float32), np.zeros((), np.float32)

    def _write_groups(
        self, parts: _Parts, numbers: NDArray[Any], scales: Floats, zero_points: Floats
    ) -> tuple[Floats, Floats]:
        """Write the scale and zero point of each group; return them as they will be decoded."""
        keys = self.format.keys
        axis = -2 if keys else -1
        low = (numbers.min(axis) - zero_points) * scales
        high = (numbers.max(axis) - zero_points) * scales
        if not keys:  # so that the zero point of a token's values is one of their codes
            low, high = np.minimum(low, 0), np.maximum(high, 0)
        steps = (high - low) / np.float32((1 << self.bits) - 1)
        if keys:
            steps = np.maximum(steps, np.abs(low) / _MOST_ZERO_POINT)
        bases, codes, coded = encode_scales(steps.reshape(*steps.shape[:-2], -1))
        coded = coded.reshape(steps.shape)
        parts.bases[...], parts.scales[...] = bases, codes.reshape(steps.shape)
        parts.zero_points[...] = np.rint(-low / coded * np.float32(self._zero_point_codes))
        return coded, self._zero_points(parts)

    @property
    def _zero_point_codes(self) -> float:
        """Codes of a zero point in a step."""
        return _FRACTIONS if self.format.keys else _LARGEST / ((1 << self.bits) - 1)

    def _zero_points(self, parts: _Parts) -> Floats:
        return parts.zero_points.astype(np.float32) * np.float32(1 / self._zero_point_codes)

    def _parts(self, payloads: Bytes) -> _Parts:
        """Return views of the parts of ``payloads``."""
        count = len(self.caches)
        heads, groups = self.format.groups
        shape = (len(payloads), count, heads, groups)
        each = count * heads * groups
        lengths = [4 * count, each, (2 if self.format.keys else 1) * each]
        rows = [self.format.tokens * width // 8 for width, _ in planes_of(self.bits)]
        lengths += [count * heads * rows_of_plane * self.format.size for rows_of_plane in rows]
        bases, scales, zero_points, *planes = np.split(payloads, np.cumsum(lengths)[:-1], axis=1)
        return _Parts(
            bases.view(np.float32),
            scales.reshape(shape),
            (zero_points.view(np.int16) if self.format.keys else zero_points).reshape(shape),
            [
                plane.reshape(*shape[:3], rows_of_plane, self.format.size)
                for plane, rows_of_plane in zip(planes, rows, strict=True)
            ],
        )


def sections_of(formats: Sequence[BlockFormat], bits: Sequence[int]) -> list[Section]:
    """Return the sections of a payload whose caches have these formats and bits, in order."""
    caches: dict[tuple[BlockFormat, int], list[int]] = {}
    for index, kind in enumerate(zip(formats, bits, strict=True)):
        caches.setdefault(kind, []).append(index)
    return [Section(each, width, tuple(indices)) for (each, width), indices in caches.items()]


@dataclass(frozen=True, slots=True)
class _Parts:
    """Views of the parts of a section's bytes."""

    bases: Floats
    """``[blocks, caches]``"""
    scales: Bytes
    """Codes, ``[blocks, caches, heads, groups]``"""
    zero_points: NDArray[Any]
    """Codes, ``[blocks, caches, heads, groups]``"""
    planes: list[Bytes]
    """``[blocks, caches, heads, rows, size]``"""


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


def planes_of(bits: int) -> Iterator[tuple[int, int]]:
    """Yield the planes of codes of ``bits`` bits, the highest first: how wide each is, and its lowest bit.

    A plane packs whole codes into a byte, so that 3 bits are a plane of 2 and one of 1.
    """
    left = bits
    for width in (8,) if bits == 8 else _WIDTHS:
        if left >= width:
            left -= width
            yield width, left


def pack(codes: Bytes, bits: int) -> list[Bytes]:
    """Pack ``codes`` ``[…, tokens, size]``; return each plane, ``[…, tokens * width / 8, size]``.

    A byte has the codes of tokens that lie ``tokens * width / 8`` apart, so that unpacking moves whole rows.
    ``tokens`` must be a multiple of 8.
    """
    packed = []
    for width, low in planes_of(bits):
        if width == 8:
            return [codes]
        rows = codes.shape[-2] * width // 8
        plane = np.zeros((*codes.shape[:-2], rows, codes.shape[-1]), np.uint8)
        mask = np.uint8((1 << width) - 1)
        for part in range(8 // width):
            piece = codes[..., part * rows : (part + 1) * rows, :] >> np.uint8(low)
            piece &= mask
            piece <<= np.uint8(part * width)
            plane |= piece
        packed.append(plane)
    return packed


def unpack(planes: list[Bytes], bits: int, out: Bytes) -> None:
    """Write the codes that :func:`pack` has packed to ``out`` ``[…, tokens, size]``, of any strides."""
    for at, ((width, low), plane) in enumerate(zip(planes_of(bits), planes, strict=True)):
        if width == 8:
            out[...] = plane
            return
        rows = plane.shape[-2]
        mask = np.uint8((1 << width) - 1)
        for part in range(8 // width):
            target = out[..., part * rows : (part + 1) * rows, :]
            piece = target if at == 0 else np.empty_like(plane)
            np.right_shift(plane, np.uint8(part * width), out=piece)
            piece &= mask
            if low:
                piece <<= np.uint8(low)
            if at:
                target |= piece
