"""The swapping-recompute pipeline: which of a context's chunks are computed instead of read (LLMS §3.3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from .costs import LinearCost

_WORTH_IT: Final = 0.9
"""The largest share of the time of reading everything at which some chunks are computed. Reads are checked
and decoded on the processor that computes, and a batch that outlasts the reads is not interrupted. Eq. 4
knows neither: where it saves less than a tenth, nothing is saved."""


def recomputed_chunks(
    io_bytes: Sequence[int], recompute: LinearCost, io: LinearCost, *, most: int | None = None
) -> int:
    """Solve Eq. 4: return how many chunks to compute, from the first on, while the others are read.

    ``io_bytes`` has the bytes of each chunk, which depend on its level of compression; 0 for one in memory.
    ``recompute`` is T_re by chunks, ``io`` is T_IO by bytes, and ``most`` bounds the result. The larger of
    both times is least at the result; at equal times the fewest chunks are computed, and none where that
    saves less than a tenth of the time.

    T_re depends on the number of chunks only, so that any of them could be chosen. Chosen from the front,
    while reading begins at the back, both meet wherever they are when they meet: a disk that turns out slower
    needs no other plan.
    """
    left_bytes, left = sum(io_bytes), len(io_bytes)
    reading = least = io.seconds(left_bytes, left)
    chosen = 0
    for chunks in range(1, left + 1):
        left_bytes -= io_bytes[chunks - 1]
        computing = recompute.seconds(chunks)
        if computing >= least:
            break
        delay = max(computing, io.seconds(left_bytes, left - chunks))
        if delay < least:
            least, chosen = delay, chunks
    if least > _WORTH_IT * reading:
        return 0
    return chosen if most is None else min(chosen, most)
