"""What a model is measured by: a sample of its segments, and the work of one layer, counted in its graph."""

from __future__ import annotations

import itertools
import math
import statistics
from dataclasses import dataclass
from typing import Final, Self

import openvino as ov

from ..heg.partition import Partition, spread
from ..model.native.library import FEED_FORWARD, MATMUL

_COLD_BYTES: Final = 64 * 2**20
"""Weights of a sample, more than most CPU caches hold: a decode step of a large model reads its weights from
memory, and so must a run of all sampled segments."""
_PAIRS: Final = 2
"""Pairs of neighbours that are also measured in one piece."""


@dataclass(frozen=True, slots=True)
class LayerSample:
    """Segments cut at all seams of a model: the first, some inner ones from all over it, and the last.

    The layers of a model are nearly alike, so that a few stand for all; only their weights need memory. A
    model without inner segments is measured whole, and so is a hybrid one, whose layers differ.
    """

    models: tuple[ov.Model, ...]
    layers: tuple[int, ...]
    """Layers of each of :attr:`models`."""
    inner: tuple[int, ...]
    """Places in :attr:`models` of the inner segments."""
    pairs: tuple[tuple[int, int, int], ...]
    """Places of pieces of two inner segments each, and of these two by themselves."""

    @classmethod
    def of(cls, partition: Partition, layer_bytes: int, head_bytes: int) -> Self:
        """Choose as many inner segments that the sample has ``_COLD_BYTES`` of weights, or all of them."""
        bounds = [0, *sorted(partition.seams), partition.layers]
        segments = partition.layer_segments(bounds[1:-1])
        layers = [end - start for start, end in itertools.pairwise(bounds)]
        if len(segments) < 3:
            return cls(tuple(segments), tuple(layers), (), ())
        starts = range(1, len(segments) - 2, 2)
        pair_bytes = max(1, 2 * layer_bytes * statistics.mean(layers))
        wanted = len(starts) if partition.hybrid else math.ceil((_COLD_BYTES - head_bytes) / pair_bytes)
        chosen = spread(starts, max(_PAIRS, wanted))
        inner = [at for start in chosen for at in (start, start + 1)] or [1]
        if partition.hybrid:
            inner = list(range(1, len(segments) - 1))
        paired = spread(chosen, _PAIRS)
        cuts = sorted({bounds[at] for start in paired for at in (start, start + 2)})
        wide = dict(zip([0, *cuts], partition.layer_segments(cuts), strict=True))
        shift = 1 + len(paired)
        order = [0, *inner, len(segments) - 1]
        return cls(
            (segments[0], *(wide[bounds[start]] for start in paired), *(segments[at] for at in order[1:])),
            (
                layers[0],
                *(layers[start] + layers[start + 1] for start in paired),
                *(layers[at] for at in order[1:]),
            ),
            tuple(range(shift, shift + len(inner))),
            tuple(
                (1 + pair, shift + inner.index(start), shift + inner.index(start) + 1)
                for pair, start in enumerate(paired)
            ),
        )

    @property
    def segments(self) -> tuple[int, ...]:
        """Places of all sampled segments in order, each by itself."""
        last = len(self.models) - 1
        return (0, *self.inner, last) if last else (0,)


@dataclass(frozen=True, slots=True)
class ModelWork:
    """Counts for one layer, and for the head behind the last one."""

    layer_bytes: int
    """Bytes of the weights of one layer, as stored."""
    head_bytes: int
    layer_flops: int
    """Multiplications and additions of one layer's matmuls for one token."""
    head_flops: int
    activation_bytes: int
    """Bytes that one layer's matmuls read and put out for one token, in float32: its scratch memory."""

    @classmethod
    def of(cls, partition: Partition) -> Self:
        """Count in a layer from the middle and in the last one; in a model without seams, the average."""
        layers = partition.layers
        if not partition.complete or layers < 3:
            weights, flops, activations = _count(partition.layer_segments(())[0])
            return cls(weights // layers, 0, flops // layers, 0, activations // layers)
        _, middle, *_, last = partition.layer_segments(sorted({1, 2, layers - 1}))
        weights, flops, activations = _count(middle)
        last_weights, last_flops, _ = _count(last)
        return cls(weights, max(0, last_weights - weights), flops, max(0, last_flops - flops), activations)


def _count(model: ov.Model) -> tuple[int, int, int]:
    """Return the bytes of weights, and for one token the operations and the activations of matmuls."""
    weights = flops = activations = 0
    read: set[tuple[str, int]] = set()
    for node in model.get_ordered_ops():
        kind = node.get_type_name()
        if kind == "Constant":
            weights += int(node.get_byte_size())
        elif kind in (MATMUL, FEED_FORWARD):
            columns = node.get_input_partial_shape(0)[-1].get_length()
            rows = node.get_attributes()["rows"]
            products = [columns * each for each in rows]
            if kind == FEED_FORWARD:
                products[2] = rows[1] * rows[2]
            flops += 2 * sum(products)
            activations += 4 * (columns + sum(rows))
        elif kind == "MatMul":
            matrix = node.input_value(1).get_partial_shape()
            width = list(node.get_output_partial_shape(0))[-1]
            if matrix.is_static and width.is_static:
                flops += 2 * math.prod(matrix.to_shape())
                activations += 4 * int(width.get_length())
                source = node.input_value(0)
                port = (str(source.get_node().get_friendly_name()), source.get_index())
                if port not in read:
                    activations += 4 * math.prod(matrix.to_shape()) // int(width.get_length())
                read.add(port)
    return weights, flops, activations
