"""Elastic granularity: how many layers a compiled segment has, by the profile (Agent.xpu §5.2, §6.2)."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Collection
from typing import Final

from .graph import ExecutionGraph
from .kernel import BatchShape, Role
from .profile import Profile

QUANTUM_S: Final = 0.025
"""Default of the longest kernel time: what a reactive request waits at most for an XPU."""

CEILING_S: Final = 0.1
"""The paper's bound on a prefill kernel (§6.2); a quantum may be shorter."""

_TYPICAL_PAST: Final = 1024
"""Past tokens at which granularities are compared: attention makes kernels longer as prompts grow."""

_DECODE_STEP: Final = BatchShape(1, 1, _TYPICAL_PAST, 1)

_AS_GOOD: Final = 1.05
"""Among granularities within this factor of the best, noise of a profile, the fewest segments win, and then
the longest chunks: a batch has fixed costs as well."""

_HOST_S: Final = 4e-4
"""What a further segment costs a decode step beyond a profile's measured seam: the runtime's own work in
front of each inference, and caches that it has emptied. A profile times inferences in a bare loop. Measured
by hand on 2026-11-23: a 0.5B model decodes 0.42 ms faster in one segment than in two, a 1.5B model 2 ms
faster in three than in five."""

_BLOCK_QUANTA: Final = 2
"""Quanta that one block of a prompt may take in a segment where it can be interrupted. Fewer segments
decode faster, and nobody waits for more than an interruption; only kernels of aged prompts run to their
ends."""

_FREE_SCRATCH: Final = 64 * 2**20
_FREE_SCRATCH_SHARE: Final = 0.2
"""Scratch memory counts beyond the larger of ``_FREE_SCRATCH`` bytes and this share of the weights."""


def choose_granularity(
    profile: Profile,
    seams: Collection[int],
    *,
    block_tokens: int,
    max_chunk_tokens: int,
    quantum_s: float,
    interruptible_s: float | None = None,
) -> ExecutionGraph:
    """Choose the segments that the model of ``profile`` is cut into, and the longest prefill chunk.

    Few segments decode fastest; many allow long prefill chunks, which read each weight once for more tokens,
    within one quantum. But each segment keeps scratch memory for the longest chunk. A candidate's cost is the
    product of its decode time, its prefill time and the factor by which it exceeds the free scratch memory.

    ``max_chunk_tokens`` is rounded up to whole KV blocks. For ``interruptible_s`` see
    :class:`ExecutionGraph`; a model in one segment gets twice as much.

    ``seams`` are the layers in front of which the model can be cut. Warns if a kernel will take longer than
    :data:`CEILING_S`.
    """
    candidates: list[tuple[float, ExecutionGraph]] = []
    divisions = {_even_bounds(profile.layers, seams, segments) for segments in range(1, len(seams) + 2)}
    if Role.PREFILL in profile.xpus:  # two XPUs wait for each other at each layer of a prompt
        divisions = {(0, *sorted(seams))}
    for bounds in divisions:
        chunk = -(-max_chunk_tokens // block_tokens) * block_tokens
        while chunk >= block_tokens:
            graph = ExecutionGraph(
                profile,
                bounds,
                block_tokens=block_tokens,
                max_chunk_tokens=chunk,
                quantum_s=quantum_s,
                # One segment may take what two would, so that its chunks are as long.
                interruptible_s=interruptible_s and interruptible_s * max(1, 2 / len(bounds)),
            )
            candidates.append((_cost(graph, profile), graph))
            chunk //= 2
    least = min(cost for cost, _ in candidates)
    _, chosen = min(
        (candidate for candidate in candidates if candidate[0] <= least * _AS_GOOD),
        key=lambda candidate: (len(candidate[1].bounds), -candidate[1].max_chunk_tokens, candidate[0]),
    )
    longest = max(
        _longest_kernel(chosen, shape)
        for shape, limit in _limits(chosen)
        if limit <= _BLOCK_QUANTA * chosen.quantum_s
    )
    if longest > max(CEILING_S, quantum_s):
        warnings.warn(
            f"a kernel of this model takes about {longest * 1e3:.0f} ms even at one KV block of tokens, so "
            "that a reactive request may wait that long behind a proactive one. "
            + ("Use a smaller or further quantised model." if len(seams) else "Its graph cannot be cut."),
            RuntimeWarning,
            stacklevel=2,
        )
    return chosen


def _even_bounds(layers: int, seams: Collection[int], segments: int) -> tuple[int, ...]:
    """First layers of ``segments`` segments, as equal as the seams allow; fewer where seams are missing."""
    wanted = (round(layers * part / segments) for part in range(1, segments))
    return (0, *sorted({min(seams, key=lambda seam: abs(seam - layer)) for layer in wanted}))


def _cost(graph: ExecutionGraph, profile: Profile) -> float:
    """Product of decode time, prefill time per token and excess memory; huge if the quantum is broken."""
    chunks = _longest_chunks(graph, _TYPICAL_PAST)
    prefill = sum(_token_seconds(graph, chunk) for chunk in chunks)
    decode = graph.estimate_seconds(_DECODE_STEP) + len(graph.bounds) * _HOST_S
    overrun = max(1.0, *(_longest_kernel(graph, shape) / limit for shape, limit in _limits(graph)))
    # The power of two of the overrun decides first; the rest counts among equals only.
    broken = 0 if overrun == 1.0 else math.ceil(math.log2(overrun)) + 1
    weights = profile.layers * profile.layer_bytes + profile.head_bytes
    longest = max(chunk.tokens for chunk in _longest_chunks(graph, 0))
    scratch = len(graph.bounds) * longest * profile.activation_bytes
    excess = max(1.0, scratch / max(_FREE_SCRATCH, _FREE_SCRATCH_SHARE * weights))
    return prefill * decode * excess * 1e6**broken


def _token_seconds(graph: ExecutionGraph, chunk: BatchShape) -> float:
    """Seconds per token of a chunk of at most ``chunk.tokens``.

    A longer chunk takes no more for a token than a shorter one: where a profile says so, it is noise, which
    must not decide for short chunks.
    """
    lengths = [chunk.tokens]
    if chunk.tokens != graph.static_tokens:
        doublings = (chunk.tokens // graph.block_tokens).bit_length()
        lengths += [graph.block_tokens << doubling for doubling in range(doublings)]
    return min(graph.estimate_seconds(chunk._replace(tokens=length)) / length for length in lengths)


def _limits(graph: ExecutionGraph) -> list[tuple[BatchShape, float]]:
    """The typical chunks and the decode step, each with what its kernels may take, in seconds.

    A chunk that can be interrupted is made as short as one block once a request is more urgent.
    """
    limits = [(_DECODE_STEP, graph.quantum_s)]
    if graph.interruptible_s is not None:
        limits.append((BatchShape(graph.block_tokens, 1, _TYPICAL_PAST, 0), _BLOCK_QUANTA * graph.quantum_s))
    for chunk in _longest_chunks(graph, _TYPICAL_PAST):
        limits.append((chunk, graph.interruptible_s or graph.quantum_s))
    return limits


def _longest_kernel(graph: ExecutionGraph, shape: BatchShape) -> float:
    """Seconds of the longest kernel of a batch of ``shape``, on every route."""
    return max(graph.longest_kernel_s(shape, avoid=avoid) for avoid in (None, Role.PREFILL))


def _longest_chunks(graph: ExecutionGraph, past_tokens: int) -> list[BatchShape]:
    """The longest prefill chunk of each route behind ``past_tokens``; without past it is the longest."""
    static = graph.static_tokens
    lengths = [] if static is None else [static]
    lengths.append(graph.chunk_tokens(past_tokens, (static or sys.maxsize) - 1))
    return [BatchShape(length, 1, past_tokens, 0) for length in lengths]
