"""The heterogeneous execution graph: the kernels that a batch consists of (Agent.xpu §5.2, §6.1, §6.5).

A batch takes one of two routes:

- *Fused*: LAYERS kernels, all on the DECODE XPU, of any shape. Each is a run of compiled segments, as many as
  fit the preemption quantum: a whole decode step where that is quick enough, a few layers of a long prompt
  chunk.
- *Split*, where the platform has a PREFILL XPU and the chunk has exactly its static shape: TOKENS kernels
  there and ATTENTION kernels on the DECODE XPU alternate, layer by layer. The last compiled segment is always
  fused: it gathers the sampled rows, whose number is not static. So prompt margins and decoding never leave
  the DECODE XPU, and the prefill of whole chunks hardly uses it.

Where the PREFILL XPU decodes as well, its kernels have a second graph for decoding, and batches that fit it
take the split route, too (:attr:`ExecutionGraph.decodes_split`).

Both routes use the same keys and values, so that of one prompt chunk the PREFILL XPU may compute the first
tokens and the DECODE XPU those behind them (:meth:`ExecutionGraph.paired_budget`).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Final

from .graph_switch import SwitchCosts
from .kernel import BatchShape, Kernel, KernelKind, Role, StaticGraph
from .profile import Profile

_PAST_STEP: Final = 256
"""Kernels are grouped for the past rounded up to this, so that a growing sequence rarely needs new ones."""
_MOST_KNOWN: Final = 16384
"""Kernels, and times of kernels, that are kept."""


class ExecutionGraph:
    """The kernels of one model on one platform, OpenVINO's or a simulated one. Only its costs change."""

    def __init__(
        self,
        cost_model: Profile,
        bounds: tuple[int, ...],
        *,
        block_tokens: int,
        max_chunk_tokens: int,
        quantum_s: float,
        interruptible_s: float | None = None,
    ) -> None:
        """``bounds`` are the first layers of the compiled segments, from 0 upward.

        ``max_chunk_tokens`` bounds fused prompt chunks from above; no kernel takes longer than ``quantum_s``
        by ``cost_model`` if the granularity of layers and blocks allows it. Where kernels of prompt chunks
        can be interrupted while they run, ``interruptible_s`` is the limit of these.
        """
        self.cost_model = cost_model
        self.bounds: Final = bounds
        self.block_tokens: Final = block_tokens
        self.max_chunk_tokens: Final = max_chunk_tokens
        self.quantum_s: Final = quantum_s
        self.interruptible_s: Final = interruptible_s
        """Longest kernel of a prompt chunk that can be interrupted, in seconds; None where none can be."""
        self.static_tokens: Final = cost_model.static_tokens if len(bounds) > 1 else None
        """Tokens in a chunk that can take the split route; None if no chunk can."""
        self.decode_tokens: Final = None if self.static_tokens is None else cost_model.decode_tokens
        """Tokens of the graphs for decoding on the PREFILL XPU; None where it does not decode."""
        self._decodes_split = False
        self._known_s: dict[tuple[KernelKind, int, int, bool, bool, BatchShape], float] = {}
        self._layers_kernel = functools.lru_cache(_MOST_KNOWN)(self._kernel_of_layers)
        self._group = functools.lru_cache(4096)(self._group_segments)
        self._fused_chunk = functools.lru_cache(1024)(self._longest_fused_chunk)
        self._longest = functools.lru_cache(4096)(self._longest_kernel_s)
        self._seconds = functools.lru_cache(4096)(self.estimate_seconds)

    def use_costs(self, cost_model: Profile) -> None:
        """Use other estimates for the same kernels from now on; batches keep the kernels they have."""
        self.cost_model = cost_model
        self._known_s.clear()
        for cached in (self._group, self._fused_chunk, self._longest, self._seconds):
            cached.cache_clear()

    @property
    def decodes_split(self) -> bool:
        """Whether batches of up to :attr:`decode_tokens` take the split route."""
        return self._decodes_split

    @decodes_split.setter
    def decodes_split(self, value: bool) -> None:
        if value is not self._decodes_split:
            self._decodes_split = value
            for cached in (self._longest, self._seconds):
                cached.cache_clear()

    @property
    def token_kernels(self) -> tuple[Kernel, ...]:
        """The TOKENS kernels of the split route, by op group; none where there is no such route."""
        if self.static_tokens is None:
            return ()
        return tuple(kernel for kernel in self._split if kernel.kind is KernelKind.TOKENS)

    def switch_costs(self) -> SwitchCosts:
        """Return what changing the graphs of all op groups costs during a static chunk.

        The attention behind an op group counts as part of it, and as that of a chunk without past.

        Raises:
            KeyError: each op group has one graph.
        """
        assert self.static_tokens is not None
        chunk = BatchShape(self.static_tokens, 1, 0, 0)
        attention_s = self._kernel_s(self._split[1], chunk)
        kernels = self.token_kernels

        def seconds(graph: StaticGraph) -> tuple[float, ...]:
            estimates = (self.cost_model.estimate(each, chunk, Role.PREFILL, graph) for each in kernels)
            return tuple(estimate.seconds + attention_s for estimate in estimates)

        return SwitchCosts(
            tuple(self.cost_model.estimate_load(each).seconds for each in kernels),
            seconds(StaticGraph.PREFILL),
            seconds(StaticGraph.DECODE),
        )

    @property
    def layers(self) -> int:
        """Decoder layers of the model."""
        return self.cost_model.layers

    @functools.cached_property
    def segment_kernels(self) -> tuple[Kernel, ...]:
        """The fused route with one kernel per compiled segment, however little time it takes."""
        return tuple(self._layers_kernel(at, at, at + 1) for at in range(len(self.bounds)))

    def kernels_for(self, shape: BatchShape, *, avoid: Role | None = None) -> tuple[Kernel, ...]:
        """Return the kernels of a batch in order, by the route that its shape allows.

        ``avoid=Role.PREFILL`` takes the fused route in any case.
        """
        if avoid is not Role.PREFILL and self._splits(shape):
            return self._split + self._fused(shape, len(self.bounds) - 1, len(self._split))
        return self._fused(shape, 0, 0)

    def _splits(self, shape: BatchShape) -> bool:
        if self._decodes_split and self.decode_tokens is not None and shape.tokens <= self.decode_tokens:
            return True
        return shape.tokens == self.static_tokens

    def chunk_tokens(self, past_tokens: int, left: int) -> int:
        """Return the length of the next prompt chunk behind ``past_tokens``, of ``left`` tokens to come.

        It is :meth:`token_budget`, or all that is left.
        """
        return min(left, self.token_budget(past_tokens, left))

    def token_budget(self, past_tokens: int, left: int, kernel_s: float | None = None) -> int:
        """Return the tokens of a batch whose first prompt chunk has ``left`` tokens to come.

        The static shape where chunks are split between XPUs and that many are left. Otherwise the longest
        chunk behind ``past_tokens`` of which each compiled segment takes at most ``kernel_s`` (if None, as
        long as it may while no request is more urgent), in whole tiles, or in whole blocks where less than a
        tile fits; at least one block. What the first chunk does not use is for other sequences.
        """
        past = _round_up(past_tokens)
        if self.static_tokens is not None and left >= self.static_tokens and self._attends_in_time(past):
            return self.static_tokens
        if kernel_s is None:
            kernel_s = self.interruptible_s or self.quantum_s
        return self._fused_chunk(past, kernel_s)

    def paired_budget(self, past_tokens: int, left: int) -> int | None:
        """Return the tokens of a prompt chunk that both XPUs compute at once; None where no chunk is split.

        The PREFILL XPU computes a static chunk, and meanwhile the DECODE XPU the tokens behind it, as many as
        take as long. It computes all the rest where that is shorter than a further static chunk.
        """
        if self.static_tokens is None or left < self.static_tokens:
            return None
        if not self._attends_in_time(_round_up(past_tokens)):
            return None
        rest, past = left - self.static_tokens, _round_up(past_tokens + self.static_tokens)
        meanwhile = self._fused_chunk(past, self._joined_s())
        if rest - meanwhile < self.static_tokens:
            meanwhile = self._fused_chunk(past, self.quantum_s)
        return self.static_tokens + min(rest, meanwhile)

    def longest_kernel_s(self, shape: BatchShape, *, avoid: Role | None = None) -> float:
        """Return the seconds of a batch's longest kernel, on the route of :meth:`kernels_for`.

        Its past counts as rounded up to the next 256 tokens.
        """
        past = _round_up(shape.past_tokens)
        return self._longest(
            BatchShape(shape.tokens, shape.sequences, past, shape.logits_rows), avoid is Role.PREFILL
        )

    def indivisible_s(self, past_tokens: int = 0) -> float:
        """Return the seconds of the longest kernel that cannot be made shorter, however short the quantum.

        It is a compiled segment that computes one block of one prompt, or one decode, behind
        ``past_tokens``; or of a static chunk a token-level kernel, or the last segment.
        """
        past = _round_up(past_tokens)
        least = [BatchShape(self.block_tokens, 1, past, 1), BatchShape(1, 1, past, 1)]
        seconds = [self._kernel_s(kernel, shape) for kernel in self.segment_kernels for shape in least]
        if self.static_tokens is not None:
            static = BatchShape(self.static_tokens, 1, past, 1)
            kernels = (*self.token_kernels, self.segment_kernels[-1])
            seconds += [self._kernel_s(kernel, static) for kernel in kernels]
        return max(seconds)

    def max_decode_batch(self, slowdown: float, pasts: Sequence[int], *, alone: int = 1) -> int:
        """Return ``B_max`` of §6.3: how many sequences decode together at little cost to the first ``alone``.

        ``pasts`` are the past tokens of the sequences in the order in which they join, the first included.
        With these a decode step takes at most ``slowdown`` times what it takes with the first alone.
        """

        def seconds(batch: int) -> float:
            return self.decode_seconds(BatchShape(batch, batch, sum(pasts[:batch]), batch))

        most_s = slowdown * seconds(alone) * (1 + 1e-9)  # sums of floats differ by their order
        batch = alone
        while batch < len(pasts) and seconds(batch + 1) <= most_s:
            batch += 1
        return batch

    def estimate_seconds(self, shape: BatchShape) -> float:
        """Estimate the time of a whole batch, each kernel on the XPU it prefers."""
        return sum(self._kernel_s(kernel, shape) for kernel in self.kernels_for(shape))

    def decode_seconds(self, shape: BatchShape) -> float:
        """Return :meth:`estimate_seconds` with the past rounded up to the next 256 tokens; mostly cached."""
        past = _round_up(shape.past_tokens)
        return self._seconds(BatchShape(shape.tokens, shape.sequences, past, shape.logits_rows))

    @property
    def footprint_bytes(self) -> int:
        """Memory that all compiled pieces need together: weights, and activations of the longest chunk.

        An upper bound: pieces that do not run at the same time may share memory (§6.5, overflow prevention).
        """
        runs = [(kernel, self.max_chunk_tokens) for kernel in self.segment_kernels]
        if self.static_tokens is not None:
            runs += [(kernel, self.static_tokens) for kernel in self._split]
        # While a group changes its graph it has both.
        loads = self.token_kernels if self.decode_tokens is not None else ()
        return max((self.cost_model.estimate_load(kernel).bytes for kernel in loads), default=0) + sum(
            self.cost_model.estimate(kernel, BatchShape(tokens, 1, 0, 1), kernel.roles[0]).bytes
            for kernel, tokens in runs
        )

    def _fused(self, shape: BatchShape, segment: int, index: int) -> tuple[Kernel, ...]:
        past = _round_up(shape.past_tokens)
        return self._group(BatchShape(shape.tokens, shape.sequences, past, shape.logits_rows), segment, index)

    def _group_segments(self, shape: BatchShape, segment: int, index: int) -> tuple[Kernel, ...]:
        """Join segments from ``segment`` on into kernels as long as :meth:`_joined_s` allows."""
        kernels: list[Kernel] = []
        limit_s = self._joined_s()
        while segment < len(self.bounds):
            kernel = self._layers_kernel(index + len(kernels), segment, segment + 1)
            for end in range(segment + 2, len(self.bounds) + 1):
                longer = self._layers_kernel(kernel.index, segment, end)
                if self._kernel_s(longer, shape) > limit_s:
                    break
                kernel = longer
            kernels.append(kernel)
            segment = kernel.segments.stop
        return tuple(kernels)

    def _joined_s(self) -> float:
        """Longest kernel that segments are joined to, in seconds.

        Beside a PREFILL XPU it is the time of one token-level kernel there: its batch needs the DECODE XPU
        for attention as soon as that ends (§6.5, idle time at barriers between XPUs).
        """
        groups = None if self.static_tokens is None else self.cost_model.xpus[Role.PREFILL].groups
        return self.quantum_s if groups is None else min(self.quantum_s, groups.middle_s)

    def _kernel_of_layers(self, index: int, first: int, end: int) -> Kernel:
        stop = self.bounds[end] if end < len(self.bounds) else self.layers
        return Kernel(
            index=index,
            kind=KernelKind.LAYERS,
            segments=range(first, end),
            layers=range(self.bounds[first], stop),
            roles=(Role.DECODE,),
            last=end == len(self.bounds),
        )

    @functools.cached_property
    def _split(self) -> tuple[Kernel, ...]:
        """The kernels of the split route up to the seam in front of the last segment."""
        layers = self.bounds[-1]
        kernels: list[Kernel] = []
        for group in range(layers + 1):
            touched = range(max(group - 1, 0), min(group + 1, layers))
            kernels.append(
                Kernel(
                    len(kernels), KernelKind.TOKENS, range(group, group + 1), touched, (Role.PREFILL,), False
                )
            )
            if group < layers:
                one = range(group, group + 1)
                kernels.append(Kernel(len(kernels), KernelKind.ATTENTION, one, one, (Role.DECODE,), False))
        return tuple(kernels)

    def _attends_in_time(self, past: int) -> bool:
        """Whether one layer's attention of a static chunk fits the quantum."""
        assert self.static_tokens is not None
        return self._kernel_s(self._split[1], BatchShape(self.static_tokens, 1, past, 0)) <= self.quantum_s

    def _longest_kernel_s(self, shape: BatchShape, fused: bool) -> float:
        kernels = self.kernels_for(shape, avoid=Role.PREFILL if fused else None)
        return max(self._kernel_s(kernel, shape) for kernel in kernels)

    def _kernel_s(self, kernel: Kernel, shape: BatchShape) -> float:
        """Return the seconds of a kernel, which are the same for all with as many layers of one batch."""
        layers = kernel.layers
        alike = (kernel.kind, len(kernel.segments), len(layers), layers.start == 0, kernel.last, shape)
        seconds = self._known_s.get(alike)
        if seconds is None:
            if len(self._known_s) == _MOST_KNOWN:
                self._known_s.clear()
            seconds = self.cost_model.estimate(kernel, shape, kernel.roles[0]).seconds
            self._known_s[alike] = seconds
        return seconds

    def _longest_fused_chunk(self, past: int, kernel_s: float) -> int:
        ends = [*self.bounds[1:], self.layers]
        widest = max(range(len(self.bounds)), key=lambda segment: ends[segment] - self.bounds[segment])
        kernel = self._layers_kernel(0, widest, widest + 1)
        for unit in (max(self.block_tokens, self.cost_model.tile_tokens), self.block_tokens):
            for tokens in range(self.max_chunk_tokens // unit * unit, 0, -unit):
                if self._kernel_s(kernel, BatchShape(tokens, 1, past, 0)) <= kernel_s:
                    return tokens
        return self.block_tokens


def _round_up(past_tokens: int) -> int:
    return -(-past_tokens // _PAST_STEP) * _PAST_STEP
