"""Measures what kernels cost on each XPU of a platform (Agent.xpu §5.2, §5.3).

Few layers are measured at few points, in seconds, before a model serves for the first time. What they leave
open is refined by the kernels that run while it serves.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import openvino as ov

from ..heg.kernel import KernelKind, Role
from ..heg.partition import Partition, with_static_tokens
from ..heg.profile import (
    Curve,
    DecodeGroups,
    GroupTimes,
    LayerCosts,
    Profile,
    StaticGroups,
    XPUProfile,
    fit_roofline,
)
from ..model.kv_layout import KVLayout
from .graph_loader import measure_loads
from .kernel_bench import MOST_TOKENS, KernelBench
from .layer_sample import LayerSample, ModelWork
from .platforms import Device

BATCHES: Final = (1, 2, 4, 6, 8, 16, 32)
"""Decode batches that are measured: these curves also say what verifying draft tokens costs."""
TILE: Final = 64
"""Rows of a tile of OpenVINO's matrix products on CPUs, whose first row costs much of it: a layer of a 1.5B
takes 4.6 ms for 64 tokens, 8.0 for 65, 9.7 for 128 and 11.9 for 129 (by hand on 2026-11-23)."""
CHUNKS: Final = (TILE, 2 * TILE, 512)
"""Prefill chunks that are measured, up to ``max_chunk_tokens``."""
BEGUN_TILES: Final = (TILE + TILE // 8, 2 * TILE + TILE // 8)
"""Chunks that show what beginning a tile costs."""
STATIC_CHUNKS: Final = (64, 128, 256)
"""Candidates for the static shape of token-level kernels."""

_PAST: Final = MOST_TOKENS - CHUNKS[-1]
_CHUNK_SEGMENTS: Final = 2
"""Inner segments that compute prefill chunks. These are bound by arithmetic: their weights may be cached."""
_LARGEST_SEAM: Final = 0.5
"""The most that a seam can cost, in layers of a decode step; what is measured beyond is noise."""
_RESHAPED: Final = (1, 4)
"""Numbers of tokens between which a change of shape is measured."""
_TURNS: Final = 3
"""How often each chunk is measured."""
_LEAST_TILE_SHARE: Final = 0.05
"""Share of a tile's time that its first token takes at least if there are tiles; less is noise."""
_SATURATED: Final = 0.9
"""The shortest static chunk with this share of the best throughput is the turning point of §5.2."""
_CHUNK_PER_DECODE: Final = 4
"""Tokens in a prompt chunk by tokens in a graph for decoding: 2 or 4 in sd.npu §3.2."""

_ESTIMATED_WATTS: Final = 10.0
"""Power of every XPU, as counters are root's: comparing energy becomes comparing time."""


def count_steps(devices: Mapping[Role, Device], max_chunk_tokens: int) -> int:
    """Return how many steps :class:`Profiler` reports, for a model that can be cut."""
    static = len(_static_chunks(max_chunk_tokens)) if Role.PREFILL in devices else 0
    chunks = [chunk for chunk in _chunks(max_chunk_tokens) if chunk not in BATCHES]
    tiles = len(_begun_tiles(_chunks(max_chunk_tokens)))
    return 1 + len(BATCHES) + len(chunks) + tiles + 1 + static


def _chunks(max_chunk_tokens: int) -> list[int]:
    return [chunk for chunk in CHUNKS if chunk <= max_chunk_tokens] or [BATCHES[-1]]


def _begun_tiles(chunks: Sequence[int]) -> list[int]:
    """Chunks that begin a tile, between two of ``chunks``."""
    return [tokens for tokens in BEGUN_TILES if TILE in chunks and tokens < chunks[-1]]


def _static_chunks(max_chunk_tokens: int) -> list[int]:
    return [chunk for chunk in STATIC_CHUNKS if chunk <= max_chunk_tokens] or [BATCHES[-1]]


class Profiler:
    """Measures one model on one machine. XPUs are measured one after the other, each alone."""

    def __init__(
        self,
        model: ov.Model,
        weights: Path,
        properties: Mapping[str, Any],
        *,
        max_chunk_tokens: int,
        bandwidth: float,
        npu_decoding: bool = False,
        advance: Callable[[str], None] = lambda step: None,
    ) -> None:
        """``model`` is a paged-attention model, ``weights`` the file that it was read from.

        ``npu_decoding`` measures graphs for decoding, too, on the XPU of static shapes. ``advance`` is called
        with the name of each step first.
        """
        self._partition = Partition(model)
        self._weights = weights
        self._work = ModelWork.of(self._partition)
        self._properties = dict(properties)
        self._chunks = _chunks(max_chunk_tokens)
        self._bandwidth = bandwidth
        self._npu_decoding = npu_decoding
        self._advance = advance
        self._spreads: list[float] = []

    @property
    def spread(self) -> float:
        """By how much the median run of a typical point took longer than the quickest one, as a share."""
        return statistics.median(self._spreads)

    def measure(self, devices: Mapping[Role, Device], fingerprint: str) -> Profile:
        """Measure every device of a platform that can run kernels of this model."""
        partition, work = self._partition, self._work
        splits = len(devices) > 1 and partition.splits
        decode, layout = self._measure_layers(devices[Role.DECODE], splits)
        xpus = {Role.DECODE: decode}
        if splits:
            xpus[Role.PREFILL] = self._measure_groups(devices[Role.PREFILL])
        measured_layers = partition.layers if partition.hybrid else len(layout.caches) // 2
        return Profile(
            fingerprint=fingerprint,
            xpus=xpus,
            bandwidth=self._bandwidth,
            measured=True,
            block_tokens=layout.block_tokens,
            layers=partition.layers,
            layer_bytes=work.layer_bytes,
            head_bytes=work.head_bytes,
            layer_flops=work.layer_flops,
            head_flops=work.head_flops,
            past_bytes=layout.block_bytes // (layout.block_tokens * measured_layers),
            activation_bytes=work.activation_bytes,
        )

    def _measure_layers(self, device: Device, splits: bool) -> tuple[XPUProfile, KVLayout]:
        """Measure LAYERS kernels of every shape on a sample of the model's segments."""
        work = self._work
        self._advance(f"{device.name}: compiling some of the layers")
        sample = LayerSample.of(self._partition, work.layer_bytes, work.head_bytes)
        layer: dict[int, float] = {}
        head: dict[int, float] = {}
        with self._bench(device, {KernelKind.LAYERS: sample.models}) as bench:
            for batch in BATCHES:
                self._advance(f"{device.name}: decode of {batch}")
                layer[batch], head[batch] = _measure_decode(bench, sample, batch)
            segment_s, entry_s = _measure_seams(bench, sample)
            reshape_s = bench.reshape_s(*_RESHAPED, pieces=sample.segments) / sum(
                sample.layers[place] for place in sample.segments
            )
            tiles = _begun_tiles(self._chunks)
            prefill = self._measure_prefill(
                device.name, bench, sample, {*self._chunks, *tiles} - layer.keys()
            )
            begun = {tokens: prefill.pop(tokens) for tokens in tiles}
            layer |= prefill
            self._advance(f"{device.name}: attention to {_PAST} tokens")
            read_s, pair_s = self._fit_attention(bench, sample, layer)
            layout = bench.layout
        attention_s = self._measure_attention(device, layout) if splits else 0.0
        # Each sampled segment has the cost of a seam; LayerCosts has it apart.
        seam_s = segment_s / statistics.mean(sample.layers[place] for place in sample.inner or (0,))
        tile_share = _tile_share(_curve(layer), begun)
        layer = {tokens: max(seconds - seam_s, seconds / 10) for tokens, seconds in layer.items()}
        flops, bandwidth = fit_roofline(
            [(tokens * work.layer_flops, work.layer_bytes, seconds) for tokens, seconds in layer.items()]
        )
        return XPUProfile(
            device=device.name,
            layers=LayerCosts(
                segment_s=segment_s,
                entry_s=entry_s,
                layer=_curve(layer),
                head=_curve(head),
                read_s=read_s,
                pair_s=pair_s,
                attention_s=attention_s,
                reshape_s=reshape_s,
                tile_tokens=TILE if tile_share else 1,
                tile_share=tile_share,
            ),
            peak_flops=flops,
            peak_bandwidth=bandwidth,
            watts=_ESTIMATED_WATTS,
        ), layout

    def _measure_prefill(
        self, name: str, bench: KernelBench, sample: LayerSample, chunks: Collection[int]
    ) -> dict[int, float]:
        """Return the seconds of one layer, its seam included, by the tokens of a chunk.

        Chunks take turns: what slows the machine down for a second would make one look worse than another.
        """
        found = dict.fromkeys(sorted(chunks), math.inf)
        for turn in range(_TURNS):
            for tokens in found:
                if not turn:
                    self._advance(f"{name}: prefill of {tokens}")
                found[tokens] = min(found[tokens], _measure_layer(bench, sample, tokens))
        return found

    def _fit_attention(
        self, bench: KernelBench, sample: LayerSample, layer: Mapping[int, float]
    ) -> tuple[float, float]:
        """Return a layer's seconds per token of past, and per pair of a new token and a token of past.

        ``layer`` has the seconds of one layer without a past.
        """
        longest = self._chunks[-1]

        def extra(tokens: int) -> float:
            return max(0.0, (_measure_layer(bench, sample, tokens, _PAST) - layer[tokens]) / _PAST)

        one, many = extra(1), extra(longest)
        pair_s = max(0.0, many - one) / (longest - 1)
        return max(0.0, one - pair_s), pair_s

    def _measure_attention(self, device: Device, layout: KVLayout) -> float:
        """Measure an ATTENTION kernel with nothing in the KV cache."""
        pieces = {KernelKind.ATTENTION: [self._partition.attention(0)]}
        with self._bench(device, pieces, layout) as bench:
            return bench.run(self._chunks[-1], kind=KernelKind.ATTENTION)[0]

    def _measure_groups(self, device: Device) -> XPUProfile:
        """Measure static token-level groups (first, middle, last) at each candidate chunk."""
        groups = self._partition.token_groups(min(2, self._partition.layers - 1))
        found: dict[int, list[float]] = {}
        for tokens in _static_chunks(self._chunks[-1]):
            self._advance(f"{device.name}: token-level kernels of {tokens}")
            pieces = [with_static_tokens(group, tokens) for group in groups]
            with self._bench(device, {KernelKind.TOKENS: pieces}) as bench:
                found[tokens] = bench.run(tokens, kind=KernelKind.TOKENS)
        rates = {tokens: tokens / sum(seconds) for tokens, seconds in found.items()}
        chosen = min(tokens for tokens, rate in rates.items() if rate >= _SATURATED * max(rates.values()))
        decode = self._measure_decode_groups(device, groups, chosen) if self._npu_decoding else None
        work = self._work
        flops, bandwidth = fit_roofline(
            [
                (tokens * work.layer_flops, work.layer_bytes, (seconds[1:-1] or [sum(seconds)])[0])
                for tokens, seconds in found.items()
            ]
        )
        return XPUProfile(
            device=device.name,
            groups=StaticGroups(tokens=chosen, **_group_times(found[chosen]), decode=decode),
            peak_flops=flops,
            peak_bandwidth=bandwidth,
            watts=_ESTIMATED_WATTS,
        )

    def _measure_decode_groups(self, device: Device, groups: Sequence[ov.Model], chunk: int) -> DecodeGroups:
        """Measure the same groups for decoding beside chunks of ``chunk`` tokens, and how long they load."""
        tokens = max(1, chunk // _CHUNK_PER_DECODE)
        self._advance(f"{device.name}: token-level kernels of {tokens}, for decoding")
        pieces = [with_static_tokens(group, tokens) for group in groups]
        with self._bench(device, {KernelKind.TOKENS: pieces}) as bench:
            seconds = bench.run(tokens, kind=KernelKind.TOKENS)
            loads = measure_loads(bench.kernels)
        return DecodeGroups(tokens=tokens, **_group_times(seconds), load=GroupTimes(**_group_times(loads)))

    @contextmanager
    def _bench(
        self,
        device: Device,
        pieces: Mapping[KernelKind, Sequence[ov.Model]],
        layout: KVLayout | None = None,
    ) -> Iterator[KernelBench]:
        bench = KernelBench(device, self._properties, pieces, self._weights, layout)
        try:
            yield bench
        finally:
            bench.close()
        self._spreads += bench.spreads


def _group_times(seconds: Sequence[float]) -> dict[str, float]:
    """Return the times of the first, a middle and the last of the sampled groups by their names."""
    first, *middle, last = seconds
    return {"first_s": first, "middle_s": middle[0] if middle else first + last, "last_s": last}


def _measure_decode(
    bench: KernelBench, sample: LayerSample, batch: int, past: int = 0
) -> tuple[float, float]:
    """Return the seconds of one layer, its seam included, and of the head, for ``batch`` sequences."""
    seconds = bench.run(batch, batch, rows=batch, past=past, pieces=sample.segments)
    if sample.inner:
        layer_s = sum(seconds[1:-1]) / sum(sample.layers[place] for place in sample.inner)
        return layer_s, max(0.0, seconds[-1] - sample.layers[-1] * layer_s)
    headless_s = sum(bench.run(batch, batch, past=past, pieces=sample.segments))
    return headless_s / sum(sample.layers), max(0.0, sum(seconds) - headless_s)


def _measure_layer(bench: KernelBench, sample: LayerSample, tokens: int, past: int = 0) -> float:
    """Return the seconds of one layer, its seam included, for ``tokens`` of one sequence."""
    if tokens == 1:  # with the head: between two runs it displaces cached weights, as in a decode step
        layer_s, _ = _measure_decode(bench, sample, 1, past)
        return layer_s
    places = _chunk_places(sample)
    seconds = bench.run(tokens, past=past, pieces=places)
    return sum(seconds) / sum(sample.layers[place] for place in places)


def _chunk_places(sample: LayerSample) -> tuple[int, ...]:
    first = (len(sample.inner) - 1) // 2
    return sample.inner[first : first + _CHUNK_SEGMENTS] or sample.segments


def _measure_seams(bench: KernelBench, sample: LayerSample) -> tuple[float, float]:
    """Return the seconds of a seam, and of everything before the first layer.

    Both are 0 for a model without inner segments, where they are part of its layers.
    """
    if not sample.inner:
        return 0.0, 0.0
    # Pairs and their parts in the same runs: what slows one of them slows the others.
    places = range(len(sample.models))
    seconds = bench.run(1, rows=1, pieces=places)
    layer_s = sum(seconds[place] for place in sample.inner) / sum(
        sample.layers[place] for place in sample.inner
    )
    saved = [seconds[one] + seconds[other] - seconds[pair] for pair, one, other in sample.pairs]
    segment_s = max(0.0, statistics.mean(saved)) if saved else 0.0
    return min(segment_s, _LARGEST_SEAM * layer_s), max(0.0, seconds[0] - sample.layers[0] * layer_s)


def _tile_share(whole: Curve, begun: Mapping[int, float]) -> float:
    """Return the share of a tile's time that its first token takes, by chunks that have ``begun`` one.

    ``whole`` has the seconds of whole tiles. 0 if nothing shows that there are tiles.
    """
    shares = []
    for tokens, seconds in begun.items():
        linear = whole.at(tokens, 0.0)
        most = whole.at(-(-tokens // TILE) * TILE, 0.0) - linear
        shares.append(min(max((seconds - linear) / most, 0.0), 1.0) if most > 0 else 0.0)
    share = statistics.mean(shares) if shares else 0.0
    return share if share >= _LEAST_TILE_SHARE else 0.0


def _curve(points: Mapping[int, float]) -> Curve:
    """Return a monotone curve: noise only adds time, so no count takes longer than a larger one."""
    counts = sorted(points)
    least = [min(points[larger] for larger in counts[at:]) for at in range(len(counts))]
    return Curve(counts=tuple(counts), seconds=tuple(least))
