"""What a kernel costs, and the protocol of every source of such estimates (Agent.xpu §5.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from .kernel import BatchShape, Kernel, Role, StaticGraph


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


class CostModel(Protocol):
    """Estimates for the kernels of one model on one platform: all that the graph and the scheduler know.

    :class:`Profile` is the implementation; tests use doubles. Immutable.
    """

    @property
    def layers(self) -> int:
        """Decoder layers of the model."""

    @property
    def static_tokens(self) -> int | None:
        """Tokens in the static shape of the PREFILL XPU's kernels; None if the platform has none."""

    @property
    def decode_tokens(self) -> int | None:
        """Tokens in the shorter static shape of these kernels, for decoding; None if they have only one."""

    @property
    def reshape_s(self) -> float:
        """How much longer a forward pass of layers takes behind one with another number of tokens."""

    @property
    def tile_tokens(self) -> int:
        """Tokens that matrix products compute as one (:attr:`LayerCosts.tile_tokens`)."""

    def estimate(
        self, kernel: Kernel, shape: BatchShape, role: Role, graph: StaticGraph | None = None
    ) -> KernelCost:
        """Estimate ``kernel`` at ``shape`` on the XPU of ``role``. Pure, and cheap enough for every decision.

        ``graph`` is the one that a TOKENS kernel runs with; None for the one made for such a shape.

        Raises:
            KeyError: the XPU of ``role`` does not run such kernels, or there is none.
        """

    def estimate_load(self, kernel: Kernel) -> KernelCost:
        """Estimate loading a graph of a TOKENS kernel, where it has two.

        Raises:
            KeyError: it has one.
        """
