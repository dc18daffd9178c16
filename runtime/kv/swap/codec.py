"""What the swapper asks of a codec; :class:`BlockCodec` is one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ..saved_contexts import Rows


class ChunkCodec(Protocol):
    """Encodes KV blocks as bytes and back. Thread-safe."""

    def encode(self, rows: Sequence[Rows], level: int, positions: Sequence[int]) -> list[bytes]:
        """Return a payload for each of ``n`` blocks; ``rows`` has ``[n, bytes of a block]`` for each cache.

        ``positions`` are the places of the blocks in the block table: the first are compressed less.
        """

    def decode(self, payloads: Sequence[bytes], level: int, out: Sequence[Rows]) -> None:
        """Decode ``n`` payloads into ``out``, ``[n, bytes of a block]`` for each cache.

        Raises:
            ChunkFormatError: a payload is not of this model and level.
        """
