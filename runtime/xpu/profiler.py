"""Measures what kernels cost on each XPU of a platform (Agent.xpu §5.2, §5.3)."""

from __future__ import annotations

import functools
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import openvino as ov

from ..heg.kernel import KernelKind, Role
from ..heg.partition import Partition, with_static_tokens
from ..heg.profile import Curve, LayerCosts, Profile, StaticGroups, XPUProfile, fit_roofline
from ..heg.work import ModelWork
from ..model.kv_layout import KVLayout
from .kernel_bench import MOST_TOKENS, SECONDS_PER_POINT, KernelBench
from .machine import PowerMeter
from .platforms import Device

BATCHES: Final = (1, 2, 4, 8, 16)
"""Decode batches that are measured."""
CHUNKS: Final = (32, 64, 128, 256, 512)
"""Prefill chunks that are measured, up to ``max_chunk_tokens``; the shortest one in any case."""
STATIC_CHUNKS: Final = (64, 128, 256)
"""Candidates for the static shape of token-level kernels."""

_PAST: Final = MOST_TOKENS - CHUNKS[-1]
_SATURATED: Final = 0.9
"""The shortest static chunk with this share of the best throughput is the turning point of §5.2."""

_ESTIMATED_WATTS: Final = 10.0
"""Power of every XPU if no meter can be read: comparing energy then becomes comparing time."""


def count_steps(devices: Mapping[Role, Device], max_chunk_tokens: int) -> int:
    """Return how many steps :class:`Profiler` reports, for a model that can be cut."""
    static = len(_static_chunks(max_chunk_tokens)) if Role.PREFILL in devices else 0
    return len(BATCHES) + len(_chunks(max_chunk_tokens)) + 2 + static


def _chunks(max_chunk_tokens: int) -> list[int]:
    return [chunk for chunk in CHUNKS if chunk <= max_chunk_tokens] or [CHUNKS[0]]


def _static_chunks(max_chunk_tokens: int) -> list[int]:
    return [chunk for chunk in STATIC_CHUNKS if chunk <= max_chunk_tokens] or [CHUNKS[0]]


class Profiler:
    """Measures one model on one machine. XPUs are measured one after the other, each alone."""

    def __init__(
        self,
        model: ov.Model,
        properties: Mapping[str, Any],
        *,
        max_chunk_tokens: int,
        bandwidth: float,
        advance: Callable[[str], None] = lambda step: None,
    ) -> None:
        """``model`` is a paged-attention model; ``advance`` is called with the name of each step first."""
        self._partition = Partition(model)
        self._work = ModelWork.of(self._partition)
        self._properties = dict(properties)
        self._chunks = _chunks(max_chunk_tokens)
        self._bandwidth = bandwidth
        self._advance = advance
        self._meter = PowerMeter.find()
        self._idle_watts = 0.0
        self._idle_watts = self._watts(lambda: time.sleep(SECONDS_PER_POINT))

    def measure(self, devices: Mapping[Role, Device], fingerprint: str) -> Profile:
        """Measure every device of a platform that can run kernels of this model."""
        partition, work = self._partition, self._work
        splits = len(devices) > 1 and partition.splits
        decode, layout = self._measure_layers(devices[Role.DECODE], splits)
        xpus = {Role.DECODE: decode}
        if splits:
            xpus[Role.PREFILL] = self._measure_groups(devices[Role.PREFILL])
        return Profile(
            fingerprint=fingerprint,
            xpus=xpus,
            bandwidth=self._bandwidth,
            measured=True,
            power_measured=self._meter is not None,
            block_tokens=layout.block_tokens,
            layers=partition.layers,
            layer_bytes=work.layer_bytes,
            head_bytes=work.head_bytes,
            layer_flops=work.layer_flops,
            head_flops=work.head_flops,
            past_bytes=layout.block_bytes // (layout.block_tokens * partition.layers),
            activation_bytes=work.activation_bytes,
        )

    def _measure_layers(self, device: Device, splits: bool) -> tuple[XPUProfile, KVLayout]:
        """Measure LAYERS kernels of every shape, cut at all seams and uncut."""
        partition, work = self._partition, self._work
        bounds = (0, *sorted(partition.seams))
        fine = KernelBench(
            device, self._properties, {KernelKind.LAYERS: partition.layer_segments(bounds[1:])}
        )
        layer, head, entry_s = self._measure_segments(fine, device.name, bounds)
        watts = self._watts(lambda: fine.run(self._chunks[-1]))
        self._advance(f"{device.name}: attention to {_PAST} tokens")
        read_s, pair_s = self._fit_attention(fine)
        cut_s = sum(fine.run(1, rows=1))
        layout = fine.layout
        fine.close()
        self._advance(f"{device.name}: the model in one piece")
        uncut_s, uncut_head = self._measure_uncut(device, with_head=not head)
        segment_s = max(0.0, cut_s - uncut_s) / max(1, len(bounds) - 1)
        layer = {tokens: max(seconds - segment_s, seconds / 10) for tokens, seconds in layer.items()}
        attention_s = self._measure_attention(device, layout) if splits else 0.0
        flops, bandwidth = fit_roofline(
            [(tokens * work.layer_flops, work.layer_bytes, seconds) for tokens, seconds in layer.items()]
        )
        return XPUProfile(
            device=device.name,
            layers=LayerCosts(
                segment_s=segment_s,
                entry_s=entry_s,
                layer=_curve(layer),
                head=_curve(head or uncut_head),
                read_s=read_s,
                pair_s=pair_s,
                attention_s=attention_s,
            ),
            peak_flops=flops,
            peak_bandwidth=bandwidth,
            watts=watts,
        ), layout

    def _measure_segments(
        self, fine: KernelBench, device: str, bounds: tuple[int, ...]
    ) -> tuple[dict[int, float], dict[int, float], float]:
        """Measure the segments that start at ``bounds``, at every batch and chunk.

        Returns:
            Seconds of one layer by tokens; of the head by logits rows, empty if the model has no inner
            segment to compare with; and of everything before the first layer.
        """
        ends = [*bounds[1:], self._partition.layers]
        sizes = [end - start for start, end in zip(bounds, ends, strict=True)]
        layer: dict[int, float] = {}
        head: dict[int, float] = {}
        entry_s = 0.0
        for tokens in (*BATCHES, *self._chunks):
            batch = tokens in BATCHES
            self._advance(f"{device}: {f'decode of {tokens}' if batch else f'prefill of {tokens}'}")
            segments = fine.run(tokens, tokens if batch else 1, rows=tokens if batch else 0)
            inner = [s / size for s, size in zip(segments[1:-1], sizes[1:-1], strict=True)]
            layer[tokens] = statistics.median(inner or [sum(segments) / self._partition.layers])
            if inner and tokens == 1:
                entry_s = max(0.0, segments[0] - sizes[0] * layer[tokens])
            if inner and batch:
                head[tokens] = max(0.0, segments[-1] - sizes[-1] * layer[tokens])
        return layer, head, entry_s

    def _measure_uncut(self, device: Device, *, with_head: bool) -> tuple[float, dict[int, float]]:
        """Measure a decode step of the model in one piece and, ``with_head``, the head by logits rows."""
        whole = KernelBench(device, self._properties, {KernelKind.LAYERS: self._partition.layer_segments(())})
        step_s = sum(whole.run(1, rows=1))
        head: dict[int, float] = {}
        for rows in BATCHES if with_head else ():
            with_rows = sum(whole.run(rows, rows, rows=rows))
            head[rows] = max(0.0, with_rows - sum(whole.run(rows, rows)))
        whole.close()
        return step_s, head

    def _fit_attention(self, fine: KernelBench) -> tuple[float, float]:
        """Return a layer's seconds per token of past, and per pair of a new token and a token of past."""
        longest = self._chunks[-1]
        layers = self._partition.layers

        def extra(tokens: int) -> float:
            seconds = sum(fine.run(tokens, past=_PAST))
            return max(0.0, (seconds - sum(fine.run(tokens))) / layers / _PAST)

        one, many = extra(1), extra(longest)
        pair_s = max(0.0, many - one) / (longest - 1)
        return max(0.0, one - pair_s), pair_s

    def _measure_attention(self, device: Device, layout: KVLayout) -> float:
        """Measure an ATTENTION kernel with nothing in the KV cache."""
        bench = KernelBench(
            device, self._properties, {KernelKind.ATTENTION: [self._partition.attention(0)]}, layout
        )
        seconds = bench.run(self._chunks[-1], kind=KernelKind.ATTENTION)[0]
        bench.close()
        return seconds

    def _measure_groups(self, device: Device) -> XPUProfile:
        """Measure static token-level groups (first, middle, last) at each candidate chunk."""
        groups = self._partition.token_groups(min(2, self._partition.layers - 1))
        found: dict[int, list[float]] = {}
        watts = _ESTIMATED_WATTS
        for tokens in _static_chunks(self._chunks[-1]):
            self._advance(f"{device.name}: token-level kernels of {tokens}")
            pieces = [with_static_tokens(group, tokens) for group in groups]
            bench = KernelBench(device, self._properties, {KernelKind.TOKENS: pieces})
            found[tokens] = bench.run(tokens, kind=KernelKind.TOKENS)
            watts = self._watts(functools.partial(bench.run, tokens, kind=KernelKind.TOKENS))
            bench.close()
        rates = {tokens: tokens / sum(seconds) for tokens, seconds in found.items()}
        chosen = min(tokens for tokens, rate in rates.items() if rate >= _SATURATED * max(rates.values()))
        first, *middle, last = found[chosen]
        work = self._work
        flops, bandwidth = fit_roofline(
            [
                (tokens * work.layer_flops, work.layer_bytes, (seconds[1:-1] or [sum(seconds)])[0])
                for tokens, seconds in found.items()
            ]
        )
        return XPUProfile(
            device=device.name,
            groups=StaticGroups(
                tokens=chosen, first_s=first, middle_s=middle[0] if middle else first + last, last_s=last
            ),
            peak_flops=flops,
            peak_bandwidth=bandwidth,
            watts=watts,
        )

    def _watts(self, work: Callable[[], object]) -> float:
        """Measure the power above idle while ``work`` is repeated."""
        if self._meter is None:
            return _ESTIMATED_WATTS
        joules, started = self._meter.joules(), time.perf_counter()
        while time.perf_counter() - started < SECONDS_PER_POINT:
            work()
        watts = (self._meter.joules() - joules) / (time.perf_counter() - started)
        return max(watts - self._idle_watts, 0.1)


def _curve(points: Mapping[int, float]) -> Curve:
    """Return a monotone curve: noise only adds time, so no count takes longer than a larger one."""
    counts = sorted(points)
    least = [min(points[larger] for larger in counts[at:]) for at in range(len(counts))]
    return Curve(counts=tuple(counts), seconds=tuple(least))
