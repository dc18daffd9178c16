"""The words of the heterogeneous execution graph: roles, kernels, passes through them (Agent.xpu §5, §6.2).

A *pass* is one forward of the model over some tokens of some sequences. A *kernel* is the piece of a pass
that is dispatched at once and never interrupted; between two kernels a pass may stay as long as it likes.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Role(enum.Enum):
    """What an XPU is for. A platform has at most one XPU a role, so that a role also names its XPU.

    Every platform has :attr:`DECODE`; a platform of one XPU has nothing else. Every pass can run there, in
    one route or another (see :meth:`ExecutionGraph.kernels_for`).
    """

    PREFILL = "prefill"
    """Token-level kernels of one static shape: an NPU."""
    DECODE = "decode"
    """Kernels of any shape, decoding and attention above all: an integrated GPU, or the CPU."""

    __hash__ = object.__hash__  # Enum's own is a Python function, and roles are looked up for every kernel


class KernelKind(enum.Enum):
    """What a kernel is made of."""

    LAYERS = "layers"
    """Whole decoder layers, their attention included; any shape. What decodes, and prefill on one XPU."""
    TOKENS = "tokens"
    """Token-level op group between two attentions (out-projection, MLP, next norm, QKV): static shape."""
    ATTENTION = "attention"
    """Sequence-level: the attention of one layer alone; any shape, no weights."""

    __hash__ = object.__hash__


@dataclass(frozen=True, slots=True)
class Kernel:
    """One dispatchable piece of a pass. Equal kernels are interchangeable; nothing here belongs to a pass."""

    index: int
    """Position in its pass, from 0."""
    kind: KernelKind
    segments: range
    """LAYERS: the compiled segments that run one after the other. TOKENS: which op group (0 … layers).
    ATTENTION: which layer. The latter two have exactly one."""
    layers: range
    """The layers of which it computes something. A TOKENS kernel between two attentions has the end of one
    layer and the beginning of the next; the first and the last of a pass's groups have one layer each."""
    roles: tuple[Role, ...]
    """Who can run it, preferred first; only roles that the platform has."""
    last: bool
    """Whether the logits are there when it is done."""


@dataclass(frozen=True, slots=True)
class BatchShape:
    """All that the cost of a pass depends on. Hashable, so that estimates can be kept."""

    tokens: int
    """New tokens of all sequences together, at least 1."""
    sequences: int
    past_tokens: int
    """Tokens already in the cache, summed over the sequences."""
    rows: int
    """Rows that want logits; 0 for a prompt chunk that is not the last."""

    @property
    def decode(self) -> bool:
        """Whether every sequence computes exactly one token."""
        return self.tokens == self.sequences


@dataclass(frozen=True, slots=True)
class BatchInputs:
    """What a pass computes, as plain numbers. Nothing here is changed by an XPU.

    The tokens of all sequences lie one after the other in one flat row. A sequence may appear several times,
    each time with its own ``past_lens``: drafts to verify and blocks to recompute are slices like any other.
    """

    token_ids: list[int]
    """``[tokens]``"""
    position_ids: list[int]
    """``[tokens]``"""
    past_lens: list[int]
    """``[sequences]`` tokens that are in the cache before this pass."""
    subsequence_begins: list[int]
    """``[sequences + 1]`` where each sequence's tokens start in the flat row."""
    block_tables: list[list[int]]
    """One block table a sequence, long enough for its past and new tokens. Not copied: before the pass has
    ended a table may only grow. It is read at the first submit."""
    max_context_len: int
    """Longest past + new of any sequence."""
    sampled_rows: list[int]
    """``[rows]`` positions in the flat row to have logits for."""

    @property
    def shape(self) -> BatchShape:
        """What it will cost."""
        return BatchShape(
            len(self.token_ids), len(self.past_lens), sum(self.past_lens), len(self.sampled_rows)
        )


@dataclass(slots=True, eq=False)
class BatchContext:
    """A pass on its way through its kernels: the paper's ``ReqContext`` (§6.2).

    To preempt a pass is to submit no further kernel of it: its residual stream stays in :attr:`buffers`, its
    keys and values in the arena, and nothing is copied. Whoever drives the pass advances :attr:`position`;
    XPUs only read it. Not thread-safe: between ``submit`` and its ``on_done`` it belongs to the XPU.
    """

    id: int
    inputs: BatchInputs | None
    """None in a simulation, which computes nothing."""
    shape: BatchShape
    kernels: tuple[Kernel, ...]
    """All kernels of the pass in order. Replaced when the pass is rerouted (§6.5, dynamic load balancing)."""
    position: int = 0
    """How many of them are done."""
    buffers: Any = field(default=None, repr=False)
    """Where the platform keeps what lives between two kernels. Taken at the first submit, given back by
    :meth:`Platform.release`."""
    logits: NDArray[np.float32] | None = field(default=None, repr=False)
    """``[rows, vocabulary]`` after the last kernel, in the order of ``sampled_rows``. OpenVINO's memory:
    valid until the pass is released."""

    @property
    def next_kernel(self) -> Kernel | None:
        """The kernel to submit next; None when the pass is through."""
        return self.kernels[self.position] if self.position < len(self.kernels) else None

    @property
    def remaining(self) -> Sequence[Kernel]:
        """The kernels that are not done, in order."""
        return self.kernels[self.position :]


@dataclass(frozen=True, slots=True)
class KernelCost:
    """Predictive annotation of a kernel at one shape on one XPU that runs nothing else (Agent.xpu §5.3)."""

    seconds: float
    bandwidth_share: float
    """Memory traffic as a share of the machine's peak read bandwidth, 0 … 1: ``BW_k / BW_peak`` of §6.4."""
    bytes: int
    """Footprint: weights, activations and device-specific memory that it needs resident."""
    watts: float
    measured: bool
    """Whether :attr:`seconds` lies between measured shapes; False where the roofline extrapolates. Watts are
    measured only where :attr:`Profile.power_measured` says so."""

    @property
    def joules(self) -> float:
        """Energy of one run."""
        return self.watts * self.seconds
