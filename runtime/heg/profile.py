"""Profiles: what the kernels of a model cost, by measured curves and a roofline beyond (Agent.xpu §5.3)."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from agentrt.finite import Finite

from .kernel import BatchShape, Kernel, KernelKind, Role, StaticGraph

Seconds = Annotated[Finite, Field(ge=0)]
Positive = Annotated[Finite, Field(gt=0)]


@dataclass(frozen=True, slots=True)
class KernelCost:
    """Predictive annotation of a kernel at one shape on one XPU that runs nothing else (Agent.xpu §5.3)."""

    seconds: float
    bandwidth_share: float
    """Memory traffic as a share of the machine's peak read bandwidth, 0 … 1: ``BW_k / BW_peak`` of §6.4."""
    bytes: int
    """Footprint: weights, activations and device-specific memory that it needs resident."""
    watts: float
    """Never measured: what counts power is root's."""
    measured: bool
    """Whether :attr:`seconds` lies between measured shapes; False where the roofline extrapolates."""

    @property
    def joules(self) -> float:
        """Energy of one run."""
        return self.watts * self.seconds


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Curve(_Frozen):
    """Seconds by a count of tokens or logits rows: linear between the measured points."""

    counts: tuple[Annotated[int, Field(ge=1)], ...] = Field(min_length=1)
    seconds: tuple[Seconds, ...]

    @model_validator(mode="after")
    def _one_time_for_each_count(self) -> Self:
        if len(self.counts) != len(self.seconds) or list(self.counts) != sorted(set(self.counts)):
            raise ValueError("counts must ascend and have one time each")
        return self

    def at(self, count: int, beyond: float) -> float:
        """Return the seconds at ``count``; each one beyond the last measured costs ``beyond`` more."""
        counts, seconds = self.counts, self.seconds
        if count <= counts[0]:
            return seconds[0]
        if count > counts[-1]:
            return seconds[-1] + (count - counts[-1]) * beyond
        right = bisect_left(counts, count)
        low, high = counts[right - 1], counts[right]
        share = (count - low) / (high - low)
        return seconds[right - 1] + share * (seconds[right] - seconds[right - 1])


class GroupTimes(_Frozen):
    """Times of the first, a middle, and the last token-level group."""

    first_s: Seconds
    """Embedding, norm, and QKV of layer 0."""
    middle_s: Seconds
    """Out-projection and MLP of one layer, norm and QKV of the next."""
    last_s: Seconds
    """Out-projection and MLP of the last layer of the groups."""

    @staticmethod
    def figure(kernel: Kernel) -> str:
        """Return the name of the field with the seconds of the group of a TOKENS kernel."""
        if len(kernel.layers) > 1:
            return "middle_s"
        return "last_s" if kernel.segments.start else "first_s"

    def of(self, kernel: Kernel) -> float:
        """Return the seconds of the group of a TOKENS kernel."""
        seconds: float = getattr(self, self.figure(kernel))
        return seconds


class DecodeGroups(GroupTimes):
    """The static token-level kernels of a shorter shape, and what changing to them costs (sd.npu §3.2)."""

    tokens: Annotated[int, Field(ge=1)]
    """Tokens that they were compiled for."""
    load: GroupTimes
    """Time to load one graph of each group, of either shape."""


class StaticGroups(GroupTimes):
    """The static token-level kernels of one XPU (Agent.xpu §5.2, elastic chunked kernel)."""

    tokens: Annotated[int, Field(ge=1)]
    """Tokens in the chunk that they were compiled for."""
    decode: DecodeGroups | None = None
    """The same kernels for decoding; None where this XPU does not decode."""


class LayerCosts(_Frozen):
    """Costs of LAYERS and ATTENTION kernels on an XPU that can run them."""

    segment_s: Seconds
    """Cost of each compiled segment beside its layers: dispatch, seam, what each segment recomputes."""
    entry_s: Seconds
    """Embedding, and everything else before the first layer."""
    layer: Curve
    """One layer with nothing in the KV cache, by tokens."""
    head: Curve
    """Final norm and LM head, by logits rows."""
    read_s: Seconds
    """One layer's attention reading one token of past, once per sequence."""
    pair_s: Seconds
    """One layer's attention for one new token and one token of past."""
    attention_s: Seconds = 0.0
    """Fixed cost of an ATTENTION kernel, beside its pairs."""
    reshape_s: Seconds = 0.0
    """How much longer one layer takes in its first run with another number of tokens."""
    tile_tokens: Annotated[int, Field(ge=1)] = 1
    """Tokens that matrix products compute as one, from that many on: one more begins the next tile. 1 where
    each token costs the same."""
    tile_share: Annotated[Finite, Field(ge=0, le=1)] = 0.0
    """Share of a tile's time that its first token takes."""

    def layer_s(self, tokens: int, beyond: float) -> float:
        """Return the seconds of one layer with nothing in the KV cache; see :meth:`Curve.at`."""
        seconds = self.layer.at(tokens, beyond)
        if not tokens > self.tile_tokens > 1 or not tokens % self.tile_tokens:
            return seconds
        whole = -(-tokens // self.tile_tokens) * self.tile_tokens
        return seconds + self.tile_share * (self.layer.at(whole, beyond) - seconds)


class XPUProfile(_Frozen):
    """The costs of one XPU, measured while it ran nothing else."""

    device: str
    layers: LayerCosts | None = None
    """None for an XPU that has only static token-level kernels."""
    groups: StaticGroups | None = None
    """None for an XPU without static token-level kernels."""
    peak_flops: Positive
    """Roofline: the most operations per second measured."""
    peak_bandwidth: Positive
    """Roofline: the most bytes of weights read per second measured."""
    watts: Positive
    """Power above idle while a kernel runs, as estimated."""

    def groups_for(self, shape: BatchShape, graph: StaticGraph | None) -> StaticGroups | DecodeGroups:
        """Return the static kernels of ``graph``; of the one made for such a shape if it is None.

        Raises:
            KeyError: there are none.
        """
        if self.groups is None:
            raise KeyError(f"{self.device} has no token-level kernels")
        decode = self.groups.decode
        if decode is None:
            return self.groups
        fits = shape.tokens <= decode.tokens if graph is None else graph is StaticGraph.DECODE
        return decode if fits else self.groups


class Profile(_Frozen):
    """Predictive annotations of one model on the XPUs of one platform: all that graph and scheduler know."""

    fingerprint: str
    """Identifies the model, the devices and the settings (:func:`fingerprint`)."""
    xpus: Mapping[Role, XPUProfile]
    bandwidth: Positive
    """The machine's read bandwidth in bytes per second, the whole of memory pressure."""
    measured: bool
    """False for a simulated machine."""
    block_tokens: Annotated[int, Field(ge=1)]
    """Tokens in one KV block on the device that computes attention."""
    layers: Annotated[int, Field(ge=1)]
    layer_bytes: Annotated[int, Field(ge=0)]
    """Bytes of the weights of one layer."""
    head_bytes: Annotated[int, Field(ge=0)]
    layer_flops: Annotated[int, Field(ge=0)]
    """Operations of one layer for one token, attention excluded."""
    head_flops: Annotated[int, Field(ge=0)]
    past_bytes: Annotated[int, Field(ge=0)]
    """Bytes of the keys and values of one token in one layer."""
    activation_bytes: Annotated[int, Field(ge=0)]
    """Bytes of activations of one token in one layer."""

    @model_validator(mode="after")
    def _decodes(self) -> Self:
        decode = self.xpus.get(Role.DECODE)
        if decode is None or decode.layers is None:
            raise ValueError("a profile has an XPU that decodes")
        return self

    @property
    def static_tokens(self) -> int | None:
        """Tokens in the static shape of the PREFILL XPU's kernels; None if the platform has none."""
        prefill = self.xpus.get(Role.PREFILL)
        return prefill.groups.tokens if prefill is not None and prefill.groups is not None else None

    @property
    def decode_tokens(self) -> int | None:
        """Tokens in the shorter static shape of these kernels, for decoding; None if they have only one."""
        decode = self._decode_groups
        return None if decode is None else decode.tokens

    @property
    def reshape_s(self) -> float:
        """How much longer a forward pass of layers takes behind one with another number of tokens."""
        layers = self.xpus[Role.DECODE].layers
        return 0.0 if layers is None else self.layers * layers.reshape_s

    @property
    def tile_tokens(self) -> int:
        """Tokens that matrix products compute as one (:attr:`LayerCosts.tile_tokens`)."""
        layers = self.xpus[Role.DECODE].layers
        return 1 if layers is None else layers.tile_tokens

    @property
    def _decode_groups(self) -> DecodeGroups | None:
        prefill = self.xpus.get(Role.PREFILL)
        return prefill.groups.decode if prefill is not None and prefill.groups is not None else None

    def estimate(
        self, kernel: Kernel, shape: BatchShape, role: Role, graph: StaticGraph | None = None
    ) -> KernelCost:
        """Estimate ``kernel`` at ``shape`` on the XPU of ``role``. Pure, and cheap enough for every decision.

        ``graph`` is the one that a TOKENS kernel runs with; None for the one made for such a shape.

        Raises:
            KeyError: the XPU of ``role`` does not run such kernels, or there is none.
        """
        xpu = self.xpus[role]
        seconds = sum(self.seconds_by_figure(kernel, shape, role, graph).values())
        weights = self._weights(xpu, kernel, shape, graph)
        past = 0 if kernel.kind is KernelKind.TOKENS else _attending_layers(kernel) * shape.past_tokens
        traffic = weights + past * self.past_bytes
        measured = self.measured
        if kernel.kind is KernelKind.LAYERS and xpu.layers is not None:
            measured &= shape.tokens <= xpu.layers.layer.counts[-1]
        return KernelCost(
            seconds,
            min(1.0, traffic / (seconds * self.bandwidth)) if seconds > 0 else 0.0,
            weights + shape.tokens * self.activation_bytes,
            xpu.watts,
            measured,
        )

    def seconds_by_figure(
        self, kernel: Kernel, shape: BatchShape, role: Role, graph: StaticGraph | None = None
    ) -> dict[str, float]:
        """Return the parts of the estimated seconds by the field of the costs that each comes from.

        The fields are those of :class:`GroupTimes` for a TOKENS kernel, else of :class:`LayerCosts`.
        Arguments and errors are those of :meth:`estimate`.
        """
        xpu = self.xpus[role]
        if kernel.kind is KernelKind.TOKENS:
            groups = xpu.groups_for(shape, graph)
            return {groups.figure(kernel): _runs(groups, shape) * groups.of(kernel)}
        costs = xpu.layers
        if costs is None:
            raise KeyError(f"{xpu.device} has only token-level kernels")
        layers, past = _attending_layers(kernel), shape.past_tokens
        attention = {
            "read_s": layers * past * costs.read_s,
            "pair_s": layers * past * shape.tokens / shape.sequences * costs.pair_s,
        }
        if kernel.kind is KernelKind.ATTENTION:
            return {"attention_s": costs.attention_s, **attention}
        parts = {
            "segment_s": len(kernel.segments) * costs.segment_s,
            "layer": layers * costs.layer_s(shape.tokens, self.layer_flops / xpu.peak_flops),
            **attention,
        }
        if kernel.layers.start == 0:
            parts["entry_s"] = costs.entry_s
        if kernel.last and shape.logits_rows:
            parts["head"] = costs.head.at(shape.logits_rows, self.head_flops / xpu.peak_flops)
        return parts

    def _weights(self, xpu: XPUProfile, kernel: Kernel, shape: BatchShape, graph: StaticGraph | None) -> int:
        """Return the bytes of weights that a kernel reads."""
        if kernel.kind is KernelKind.TOKENS:
            groups = xpu.groups_for(shape, graph)
            return _runs(groups, shape) * self._group_bytes(groups, kernel)
        if kernel.kind is KernelKind.ATTENTION:
            return 0
        # Of the embedding table only the rows of these tokens are read.
        head = self.head_bytes if kernel.last and shape.logits_rows else 0
        return len(kernel.layers) * self.layer_bytes + head

    def estimate_load(self, kernel: Kernel) -> KernelCost:
        """Estimate loading a graph of a TOKENS kernel, where it has two.

        Raises:
            KeyError: it has one.
        """
        decode, xpu = self._decode_groups, self.xpus.get(Role.PREFILL)
        if decode is None or xpu is None:
            raise KeyError("the token-level kernels have one graph")
        seconds, weights = decode.load.of(kernel), self._group_bytes(decode, kernel)
        share = min(1.0, weights / (seconds * self.bandwidth)) if seconds > 0 else 0.0
        return KernelCost(seconds, share, weights, xpu.watts, self.measured)

    def _group_bytes(self, groups: GroupTimes, kernel: Kernel) -> int:
        """Return the bytes of the weights of a group.

        The first and the last one share the weights of one layer, in about the ratio of their times.
        """
        if len(kernel.layers) > 1:
            return self.layer_bytes
        ends_s = max(groups.first_s + groups.last_s, math.ulp(1.0))
        return round(self.layer_bytes * groups.of(kernel) / ends_s)


def _attending_layers(kernel: Kernel) -> int:
    """Return the number of layers whose attention a LAYERS or ATTENTION kernel computes."""
    return 1 if kernel.kind is KernelKind.ATTENTION else len(kernel.layers)


def _runs(groups: StaticGroups | DecodeGroups, shape: BatchShape) -> int:
    """Return how often a static kernel runs until all tokens are computed."""
    return -(-shape.tokens // groups.tokens)


def fit_roofline(work: list[tuple[float, float, float]]) -> tuple[float, float]:
    """Fit ``seconds = max(flops / peak_flops, bytes / peak_bandwidth)`` to runs of one kind of kernel.

    ``work`` holds ``(flops, bytes, seconds)`` of each run. Each roof touches the best run under it: a run
    that is bound by the other resource lies below it, and never lifts it.

    Returns:
        ``(peak_flops, peak_bandwidth)``, both positive.
    """
    flops = max(arithmetic / seconds for arithmetic, _, seconds in work)
    bandwidth = max(traffic / seconds for _, traffic, seconds in work)
    return max(flops, math.ulp(1.0)), max(bandwidth, math.ulp(1.0))
