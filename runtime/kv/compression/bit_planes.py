"""Codes of fewer than 8 bits, packed into bytes along the tokens of a block."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]

_WIDTHS: Final = (4, 2, 1)


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
