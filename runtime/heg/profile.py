"""What kernels cost: measured curves where there are some, a roofline beyond them (Agent.xpu §5.3)."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from .kernel import BatchShape, Kernel, KernelCost, KernelKind, Role

Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Curve(_Frozen):
    """Seconds by a count, of tokens or of rows: straight lines between what was measured."""

    counts: tuple[Annotated[int, Field(ge=1)], ...] = Field(min_length=1)
    seconds: tuple[Seconds, ...]

    @model_validator(mode="after")
    def _one_time_for_each_count(self) -> Self:
        if len(self.counts) != len(self.seconds) or list(self.counts) != sorted(set(self.counts)):
            raise ValueError("counts must ascend and have one time each")
        return self

    def at(self, count: int, beyond: float) -> float:
        """Seconds at ``count``; each one beyond the last measured costs ``beyond`` more."""
        counts, seconds = self.counts, self.seconds
        if count <= counts[0]:
            return seconds[0]
        if count > counts[-1]:
            return seconds[-1] + (count - counts[-1]) * beyond
        right = bisect_left(counts, count)
        low, high = counts[right - 1], counts[right]
        share = (count - low) / (high - low)
        return seconds[right - 1] + share * (seconds[right] - seconds[right - 1])


class StaticGroups(_Frozen):
    """The static token-level kernels of one XPU (Agent.xpu §5.2, elastic chunked kernel)."""

    tokens: Annotated[int, Field(ge=1)]
    """The chunk that they were compiled for."""
    first_s: Seconds
    """Embedding, norm, and QKV of layer 0."""
    middle_s: Seconds
    """Out-projection and MLP of one layer, norm and QKV of the next."""
    last_s: Seconds
    """Out-projection and MLP, and no layer behind."""


class LayerCosts(_Frozen):
    """LAYERS and ATTENTION kernels on an XPU that can run them."""

    segment_s: Seconds
    """What each compiled segment costs beside its layers: dispatch, seam, what it computes for itself."""
    entry_s: Seconds
    """Embedding, and what else comes before the first layer."""
    layer: Curve
    """One layer whose tokens attend to each other only, by tokens."""
    head: Curve
    """Final norm and LM head, by rows."""
    read_s: Seconds
    """One layer's attention reading one token of past, once a sequence."""
    pair_s: Seconds
    """One layer's attention for one new token and one token of past."""
    attention_s: Seconds = 0.0
    """What an ATTENTION kernel costs beside its pairs."""

    def attention(self, shape: BatchShape) -> float:
        """Seconds that one layer of ``shape`` spends on what is in the cache already."""
        past = shape.past_tokens
        return past * self.read_s + past * shape.tokens / shape.sequences * self.pair_s


class XPUProfile(_Frozen):
    """What was measured on one XPU that ran nothing else."""

    device: str
    layers: LayerCosts | None = None
    """None for an XPU that only has static token-level kernels."""
    groups: StaticGroups | None = None
    """None for an XPU that has no such kernels."""
    peak_flops: Positive
    """Roofline: the most arithmetic seen in a second."""
    peak_bandwidth: Positive
    """Roofline: the most bytes of weights seen read in a second."""
    watts: Positive
    """While a kernel runs, above idle."""


class Profile(_Frozen):
    """Predictive annotations of one model on the XPUs of one platform: a :class:`CostModel`."""

    fingerprint: str
    """Of model, device and settings: whose profile this is."""
    xpus: Mapping[Role, XPUProfile]
    bandwidth: Positive
    """The machine's read bandwidth, bytes a second: what pressure is a share of."""
    measured: bool
    """False for a simulated machine."""
    power_measured: bool
    """Whether the watts were read off the machine (RAPL); otherwise they are an estimate."""
    block_tokens: Annotated[int, Field(ge=1)]
    """Tokens in one KV block on the attending device."""
    layers: Annotated[int, Field(ge=1)]
    layer_bytes: Annotated[int, Field(ge=0)]
    """Weights of one layer."""
    head_bytes: Annotated[int, Field(ge=0)]
    layer_flops: Annotated[int, Field(ge=0)]
    """Arithmetic of one layer for one token, attention excluded."""
    head_flops: Annotated[int, Field(ge=0)]
    past_bytes: Annotated[int, Field(ge=0)]
    """Keys and values of one token in one layer."""
    activation_bytes: Annotated[int, Field(ge=0)]
    """What one token needs beside the weights while it passes through a layer."""

    @model_validator(mode="after")
    def _decodes(self) -> Self:
        decode = self.xpus.get(Role.DECODE)
        if decode is None or decode.layers is None:
            raise ValueError("a profile has an XPU that decodes")
        return self

    def estimate(self, kernel: Kernel, shape: BatchShape, role: Role) -> KernelCost:
        """Predict ``kernel`` at ``shape`` on the XPU of ``role``; see :class:`CostModel`.

        Raises:
            KeyError: the XPU of ``role`` does not run such kernels, or there is none.
        """
        xpu = self.xpus[role]
        past = 0
        measured = self.measured
        if kernel.kind is KernelKind.TOKENS:
            if xpu.groups is None:
                raise KeyError(f"{xpu.device} has no token-level kernels")
            seconds, weights = self._group(xpu.groups, kernel)
        elif xpu.layers is None:
            raise KeyError(f"{xpu.device} has only token-level kernels")
        elif kernel.kind is KernelKind.LAYERS:
            seconds, weights = self._layers(xpu, xpu.layers, kernel, shape)
            past = len(kernel.layers) * shape.past_tokens
            measured &= shape.tokens <= xpu.layers.layer.counts[-1]
        else:
            seconds, weights = xpu.layers.attention_s + xpu.layers.attention(shape), 0
            past = shape.past_tokens
        traffic = weights + past * self.past_bytes
        return KernelCost(
            seconds,
            min(1.0, traffic / (seconds * self.bandwidth)) if seconds > 0 else 0.0,
            weights + shape.tokens * self.activation_bytes,
            xpu.watts,
            measured,
        )

    def _layers(
        self, xpu: XPUProfile, costs: LayerCosts, kernel: Kernel, shape: BatchShape
    ) -> tuple[float, int]:
        """Seconds and bytes of weights read of whole layers."""
        tokens, layers = shape.tokens, len(kernel.layers)
        each = costs.layer.at(tokens, self.layer_flops / xpu.peak_flops) + costs.attention(shape)
        seconds = len(kernel.segments) * costs.segment_s + layers * each
        weights = layers * self.layer_bytes
        if kernel.layers.start == 0:
            # Of the table behind an embedding only the rows of these tokens are read.
            seconds += costs.entry_s
        if kernel.last and shape.rows:
            seconds += costs.head.at(shape.rows, self.head_flops / xpu.peak_flops)
            weights += self.head_bytes
        return seconds, weights

    def _group(self, groups: StaticGroups, kernel: Kernel) -> tuple[float, int]:
        """Seconds and bytes of weights read of a static token-level group."""
        if kernel.segments.start == 0:
            return groups.first_s, 0
        return (groups.last_s if len(kernel.layers) == 1 else groups.middle_s), self.layer_bytes


def fit_roofline(work: list[tuple[float, float, float]]) -> tuple[float, float]:
    """Fit ``seconds = max(flops / peak_flops, bytes / peak_bandwidth)`` to runs of one kind of kernel.

    ``work`` holds ``(flops, bytes, seconds)`` of each run. Both roofs touch the best run under them: a run
    that is bound by the other resource lies below, and never lifts a roof.

    Returns:
        ``(peak_flops, peak_bandwidth)``, both positive.
    """
    flops = max(arithmetic / seconds for arithmetic, _, seconds in work)
    bandwidth = max(traffic / seconds for _, traffic, seconds in work)
    return max(flops, math.ulp(1.0)), max(bandwidth, math.ulp(1.0))
