"""A codec that changes nothing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from agentrt.errors import ChunkFormatError
from agentrt.runtime.kv.saved_contexts import Rows


class ArenaBytes:
    """A codec of level 0 only, for arenas of any shape."""

    def encode(self, rows: Sequence[Rows], levels: Sequence[int], positions: Sequence[int]) -> list[bytes]:
        return [b"".join(cache[index].tobytes() for cache in rows) for index in range(len(positions))]

    def decode(self, payloads: Sequence[bytes], level: int, out: Sequence[Rows]) -> None:
        expected = sum(cache.shape[1] for cache in out)
        for index, payload in enumerate(payloads):
            if level or len(payload) != expected:
                raise ChunkFormatError("no chunk of this model. Compute it again.")
            content, begin = np.frombuffer(payload, np.uint8), 0
            for cache in out:
                cache[index] = content[begin : begin + cache.shape[1]]
                begin += cache.shape[1]
