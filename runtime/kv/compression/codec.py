"""Codec of KV blocks: a block of the arena to bytes at 8, 4 or 2 bits a number, and back (LLMS §3.2).

Keys are quantised by channel, values by token, as the devices do it: a channel of keys has its own mean and
range, a token of values its own size. The bytes of a level count everything: scales, zero points, a header.
"""

from __future__ import annotations

import struct
import zlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from agentrt.errors import ChunkFormatError

from ..saved_contexts import Rows
from .block_formats import Bytes, block_format
from .sections import sections_of

if TYPE_CHECKING:
    from agentrt.runtime.model.kv_layout import KVLayout

AS_IT_IS: Final = 0
"""The level of the arena's bytes: its payload is one block of each cache, in order."""
WHOLE: Final = 8
"""The level that is as exact as 8 bits are; of a quantised arena the bytes as they are."""

_HEADER: Final = struct.Struct("<2sBBI")
"""Magic number, version of the format, level, checksum of the layout and the plan."""
_MAGIC: Final = b"kv"
_FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class BitPlan:
    """Bits of each cache at each level, and what is protected from low levels. A value."""

    bits: Mapping[int, tuple[int, ...]]
    """By level, the bits of the numbers of each cache, in the order of :meth:`KVArena.rows`."""
    sink_blocks: int = 1
    """So many first blocks of a sequence are stored at :data:`WHOLE`: every later token attends to them."""

    @classmethod
    def uniform(cls, caches: int, levels: Sequence[int] = (8, 4, 2), sink_blocks: int = 1) -> BitPlan:
        """Return the plan whose caches all have as many bits as their level says."""
        return cls({level: (level,) * caches for level in levels}, sink_blocks)


class BlockCodec:
    """Encodes and decodes blocks of one layout. Thread-safe.

    It has no level but :data:`AS_IT_IS` where the device's layout is not known.
    """

    def __init__(self, layout: KVLayout, plan: BitPlan | None = None) -> None:
        """Plan the bytes of each level; ``plan`` is uniform if None."""
        caches = sorted(layout.caches, key=lambda cache: cache.name)
        found = [block_format(cache, layout.block_tokens) for cache in caches]
        formats = [each for each in found if each is not None]
        plan = BitPlan.uniform(len(caches)) if plan is None else plan
        if len(formats) < len(found) or layout.block_tokens % 8 or len({each.size for each in formats}) > 1:
            formats, plan = [], BitPlan({})
        self._sink_blocks = plan.sink_blocks
        self._block_bytes = [cache.block_bytes for cache in caches]
        self._sections = {level: sections_of(formats, bits) for level, bits in plan.bits.items()}
        self.fingerprint: Final = zlib.crc32(repr((formats, sorted(plan.bits.items()))).encode())
        """A number that differs for codecs that cannot read each other's payloads."""
        self.levels: Final = (AS_IT_IS, *sorted(plan.bits, reverse=True))
        """The levels that can be asked for: none, then from the most to the fewest bits."""

    def payload_bytes(self, level: int, position: int) -> int:
        """Return the length of the payload of block ``position`` of its sequence at ``level``."""
        return self._length(self._stored_level(level, position))

    def encode(self, rows: Sequence[Rows], levels: Sequence[int], positions: Sequence[int]) -> list[bytes]:
        """Return a payload for each of some blocks.

        ``rows[c]`` are these blocks of cache ``c``, ``[blocks, bytes]``, ``levels`` those that they get,
        ``positions`` their places in their sequences.
        """
        payloads: list[bytes] = [b""] * len(positions)
        stored = [self._stored_level(*each) for each in zip(levels, positions, strict=True)]
        for each, chosen in _places(stored).items():
            whole = len(chosen) == len(stored)
            encoded = self._encode([row if whole else row[chosen] for row in rows], each)
            for index, payload in zip(chosen, encoded, strict=True):
                payloads[index] = payload.tobytes()
        return payloads

    def decode(self, payloads: Sequence[bytes], level: int, out: Sequence[Rows]) -> None:
        """Write blocks that were encoded at ``level`` to ``out``; ``out[c]`` is ``[blocks, bytes]``.

        Raises:
            ChunkFormatError: a payload is not one of this codec. Nothing has been written.
        """
        stored = [self._level_of(payload, level) for payload in payloads]
        for each, chosen in _places(stored).items():
            joined = np.frombuffer(b"".join([payloads[index] for index in chosen]), np.uint8)
            into = slice(None) if len(chosen) == len(stored) else chosen
            self._decode(joined.reshape(len(chosen), -1), each, out, into)

    def is_protected(self, position: int) -> bool:
        """Whether block ``position`` of a sequence is stored at :data:`WHOLE` whatever its level."""
        return position < self._sink_blocks and WHOLE in self._sections

    def _stored_level(self, level: int, position: int) -> int:
        return WHOLE if level != AS_IT_IS and self.is_protected(position) else level

    def _length(self, stored_level: int) -> int:
        if stored_level == AS_IT_IS:
            return sum(self._block_bytes)
        return _HEADER.size + sum(section.bytes for section in self._sections[stored_level])

    def _level_of(self, payload: bytes, level: int) -> int:
        """Return the level that ``payload`` has: ``level``, or that of a protected block."""
        stored = level
        if level != AS_IT_IS:
            if len(payload) < _HEADER.size:
                raise ChunkFormatError("a compressed KV block is cut off. Compute it again.")
            *kind, stored, fingerprint = _HEADER.unpack_from(payload)
            if (kind, fingerprint) != ([_MAGIC, _FORMAT], self.fingerprint) or stored not in self._sections:
                raise ChunkFormatError(
                    "a compressed KV block is of another model, layout or version. Compute it again."
                )
        if len(payload) != self._length(stored):
            raise ChunkFormatError(
                f"a KV block of level {stored} has {len(payload)} bytes instead of {self._length(stored)}. "
                "Compute it again."
            )
        return stored

    def _encode(self, rows: Sequence[Rows], stored_level: int) -> Bytes:
        """Return the payloads ``[blocks, bytes]`` of blocks of one level."""
        if stored_level == AS_IT_IS:
            return np.concatenate(rows, axis=1)
        payloads = np.empty((len(rows[0]), self._length(stored_level)), np.uint8)
        header = _HEADER.pack(_MAGIC, _FORMAT, stored_level, self.fingerprint)
        payloads[:, : _HEADER.size] = np.frombuffer(header, np.uint8)
        begin = _HEADER.size
        for section in self._sections[stored_level]:
            blocks = np.stack([rows[cache] for cache in section.caches], axis=1)
            section.encode(blocks, payloads[:, begin : begin + section.bytes])
            begin += section.bytes
        return payloads

    def _decode(
        self, payloads: Bytes, stored_level: int, out: Sequence[Rows], into: slice | list[int]
    ) -> None:
        """Write blocks of one level to the rows ``into`` of ``out``."""
        if stored_level == AS_IT_IS:
            ends = np.cumsum(self._block_bytes)[:-1]
            for cache, block in zip(out, np.split(payloads, ends, axis=1), strict=True):
                cache[into] = block
            return
        begin = _HEADER.size
        for section in self._sections[stored_level]:
            blocks = section.decode(payloads[:, begin : begin + section.bytes])
            for at, place in enumerate(section.caches):
                out[place][into] = blocks[:, at]
            begin += section.bytes


def _places(levels: Sequence[int]) -> dict[int, list[int]]:
    """Return by level where it is in ``levels``."""
    places: dict[int, list[int]] = defaultdict(list)
    for index, level in enumerate(levels):
        places[level].append(index)
    return places
