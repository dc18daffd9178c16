"""Plain data of the heterogeneous execution graph: roles, kernels, batches (Agent.xpu §5, §6.2).

A *batch* is one forward pass of the model over some tokens of some sequences. A *kernel* is the part of it
that is submitted at once and never interrupted; between two kernels a batch may pause for any time.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Role(enum.Enum):
    """The role of an XPU on its platform, which has at most one XPU per role: a role also names its XPU.

    Every platform has :attr:`DECODE`; a platform of one XPU has nothing else. Every batch can run there, on
    one route or another (see :meth:`ExecutionGraph.kernels_for`).
    """

    PREFILL = "prefill"
    """Token-level kernels of one static shape: an NPU."""
    DECODE = "decode"
    """Kernels of any shape, decoding and attention above all: an integrated GPU, or the CPU."""

    __hash__ = object.__hash__  # Enum's is a Python function; roles are looked up per kernel


class KernelKind(enum.Enum):
    """What a kernel consists of."""

    LAYERS = "layers"
    """Whole decoder layers with their attention; any shape. Used to decode, and to prefill on one XPU."""
    TOKENS = "tokens"
    """Token-level op group between two attentions (out-projection, MLP, next norm, QKV): static shape."""
    ATTENTION = "attention"
    """Sequence-level: the attention of one layer alone; any shape, no weights."""

    __hash__ = object.__hash__


class StaticGraph(enum.Enum):
    """The graphs of a token-level op group on an XPU of static shapes, which has one of them at a time.

    See ``graph_switch.py``. Either computes any batch: it is repeated until all tokens are computed, and the
    last time its unused rows are padded.
    """

    PREFILL = "prefill"
    """Its shape is a prompt chunk: G1 of sd.npu §3.2."""
    DECODE = "decode"
    """Its shape is shorter, for decodes and drafts to verify: G2."""

    __hash__ = object.__hash__


@dataclass(frozen=True, slots=True)
class Kernel:
    """One part of a batch that is submitted at once. A value: equal kernels are interchangeable."""

    index: int
    """Position in its batch, from 0."""
    kind: KernelKind
    segments: range
    """LAYERS: the compiled segments that run one after the other. TOKENS: which op group (0 … layers).
    ATTENTION: which layer. The latter two have exactly one."""
    layers: range
    """The layers of which it computes something. A TOKENS kernel between two attentions has the end of one
    layer and the beginning of the next; the first and the last group of a batch have one layer each."""
    roles: tuple[Role, ...]
    """The XPUs that can run it, preferred first; only roles that the platform has."""
    last: bool
    """Whether it computes the logits."""


@dataclass(frozen=True, slots=True)
class GraphLoad:
    """An order to load a graph of a token-level op group in place of the other one."""

    kernel: Kernel
    """The TOKENS kernel that runs the op group."""
    graph: StaticGraph

    @property
    def group(self) -> int:
        """Which op group it is, from 0."""
        return self.kernel.segments.start


class BatchShape(NamedTuple):
    """All that the cost of a batch depends on. Hashable, so that estimates can be cached."""

    tokens: int
    """New tokens of all sequences together, at least 1."""
    sequences: int
    past_tokens: int
    """Tokens already in the cache, summed over the sequences."""
    logits_rows: int
    """Rows that logits are computed for; 0 for a prompt chunk that is not the last."""


@dataclass(frozen=True, slots=True)
class StateAccess:
    """The rows of the state tables that one sequence reads and writes in a batch, in a hybrid model.

    The state behind the tokens before the batch is read from the first row. While the batch computes the
    sequence's tokens, the state is written to the next row behind each token at which ``past`` + tokens so
    far is a multiple of ``interval``, and behind the last token.
    """

    rows: tuple[int, ...]
    """The row that is read, then those that are written, at least one."""
    past: int = 0
    """Tokens before the batch, counted from any checkpoint."""
    interval: int = 0
    """Tokens between two checkpoints; 0 writes only the state behind the last token."""


class BatchInputs(NamedTuple):
    """The inputs of a batch's forward pass, as plain numbers. XPUs do not change them.

    The tokens of all sequences lie one after the other in one flat row. A sequence may appear several times,
    each time with its own ``past_lens``: drafts to verify and blocks to recompute are chunks like any other.
    """

    token_ids: list[int]
    """``[tokens]``"""
    position_ids: list[int]
    """``[tokens]``"""
    past_lens: list[int]
    """``[sequences]`` tokens that are in the KV cache before this batch."""
    subsequence_begins: list[int]
    """``[sequences + 1]`` where each sequence's tokens start in the flat row, and where the last ends."""
    block_tables: list[list[int]]
    """One block table per sequence, long enough for its past and new tokens. Not copied: until the batch has
    ended a table may only grow. It is read at the first submit."""
    max_context_len: int
    """Longest past + new of any sequence."""
    sampled_rows: list[int]
    """``[logits rows]`` positions in the flat row to compute logits for."""
    states: Sequence[StateAccess] = ()
    """In a hybrid model the state rows of each sequence; empty in all others."""
    block_copies: Sequence[tuple[int, int]] = ()
    """KV blocks that are copied before the first kernel, each to the second one."""

    @property
    def shape(self) -> BatchShape:
        """The shape that its cost depends on."""
        return BatchShape(
            len(self.token_ids), len(self.past_lens), sum(self.past_lens), len(self.sampled_rows)
        )


@dataclass(slots=True, eq=False)
class BatchContext:
    """The execution state of a batch between its kernels: the paper's ``ReqContext`` (§6.2).

    To preempt a batch is to submit no further kernel of it: its residual stream stays in :attr:`buffers`, its
    keys and values in the arena, and nothing is copied. The scheduler advances :attr:`position`; XPUs only
    read it. Not thread-safe: between ``submit`` and its ``on_done`` it belongs to the XPU.
    """

    id: int
    inputs: BatchInputs | None
    """None in a simulation, which computes nothing."""
    shape: BatchShape
    kernels: tuple[Kernel, ...]
    """All of its kernels in order."""
    position: int = 0
    """How many of them are done."""
    running_on: Role | None = None
    """The XPU that runs the next one now."""
    buffers: Any = field(default=None, repr=False)
    """The platform's memory for inputs and activations. Taken at the first submit, given back by
    :meth:`Platform.release`."""
    logits: NDArray[np.float32] | None = field(default=None, repr=False)
    """``[logits rows, vocabulary]`` after the last kernel, in the order of ``sampled_rows``. Memory of
    :attr:`buffers`: valid until the batch is released."""
    scores: list[NDArray[np.float32]] = field(default_factory=list, repr=False)
    """The attention scores of each scored layer that has run: those of each sequence, past and new tokens,
    one sequence after the other. Empty where no layer is scored."""

    @property
    def next_kernel(self) -> Kernel | None:
        """The kernel to submit next; None when all are done."""
        return self.kernels[self.position] if self.position < len(self.kernels) else None

    @property
    def attended_layers(self) -> int:
        """The layers, from the first on, whose keys and values are written."""
        for kernel in reversed(self.kernels[: self.position]):
            if kernel.kind is not KernelKind.TOKENS:
                return kernel.layers.stop
        return 0

    @property
    def remaining(self) -> Sequence[Kernel]:
        """The kernels that are not done, in order."""
        return self.kernels[self.position :]
