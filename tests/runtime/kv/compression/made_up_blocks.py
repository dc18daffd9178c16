"""Made-up KV layouts, and blocks of them that hold given numbers."""

from __future__ import annotations

import numpy as np
import openvino as ov
from numpy.typing import NDArray

from agentrt.runtime.kv.compression.block_formats import BlockFormat, block_format
from agentrt.runtime.model.kv_layout import CacheInput, KVLayout

TYPES = {"f32": ov.Type.f32, "bf16": ov.Type.bf16, "f16": ov.Type.f16, "u8": ov.Type.u8}
TOKENS = 32


def layout_of(element: str, layers: int = 2, heads: int = 2, size: int = 16) -> KVLayout:
    packed = element == "u8"
    keys = (heads, TOKENS + 8, size) if packed else (heads, TOKENS, size)
    values = (heads, TOKENS, size + 8) if packed else (heads, TOKENS, size)
    return KVLayout(
        tuple(
            CacheInput(f"{kind}_cache.{layer}", TYPES[element], shape)
            for layer in range(layers)
            for kind, shape in (("key", keys), ("value", values))
        ),
        TOKENS,
    )


def formats_of(layout: KVLayout) -> list[BlockFormat]:
    """Return the formats of the caches of ``layout`` in the order of the arena's rows."""
    found = [block_format(cache, TOKENS) for cache in sorted(layout.caches, key=lambda cache: cache.name)]
    return [each for each in found if each is not None]


def write(format: BlockFormat, numbers: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Return blocks that hold ``numbers`` ``[blocks, heads, tokens, size]`` as a device writes them."""
    blocks = np.zeros((len(numbers), format.block_bytes), np.uint8)
    if not format.quantised:
        format.write_numbers(numbers, blocks)
        return blocks
    axis = -2 if format.keys else -1
    low, high = numbers.min(axis), numbers.max(axis)
    scales = np.where(high > low, (high - low) / 255, 1e-4).astype(np.float32)
    zero_points = (-low / scales).astype(np.float32)
    codes = np.rint(numbers / format.spread(scales) + format.spread(zero_points))
    format.codes(blocks)[...] = np.clip(codes, 0, 255)
    own_scales, own_zero_points = format.parameters(blocks)
    own_scales[...], own_zero_points[...] = scales, zero_points
    return blocks


def random_rows(layout: KVLayout, blocks: int, seed: int = 0) -> list[NDArray[np.uint8]]:
    """Return blocks like a model's: channels of keys have means and ranges of their own."""
    random = np.random.default_rng(seed)
    rows = []
    for format in formats_of(layout):
        numbers = random.normal(size=(blocks, format.heads, TOKENS, format.size))
        if format.keys:
            channels = (1, format.heads, 1, format.size)
            numbers = numbers * np.exp(random.normal(size=channels)) + 9 * random.normal(size=channels)
        else:
            numbers *= np.exp(random.normal(size=(blocks, format.heads, TOKENS, 1)))
        rows.append(write(format, numbers.astype(np.float32)))
    return rows
