"""Breakdown of a decode step's time, and its share of the memory bandwidth."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..common.pieces import Pieces
from ..common.report import Cell, Table

if TYPE_CHECKING:
    import openvino as ov

    from agentrt.runtime.model.kv_layout import KVLayout

_SMALL: Final = 0.01
"""Kinds of operations that take less than this share of a step are one row, unless they read weights."""
_WARM_UP: Final = 5
_STEPS_IN_TURN: Final = 8


@dataclass(frozen=True, slots=True)
class Operation:
    """All operations of one kind in a decode step."""

    kind: str
    count: int
    seconds: float
    bytes: int
    """Weights that they read; 0 for all but matrices."""


@dataclass(frozen=True, slots=True)
class DecodeStep:
    """A decode step of one sequence in the runtime's pieces."""

    segments: int
    """Compiled pieces that it runs."""
    bytes: int
    """Weights, keys and values that it reads."""
    inference_s: float
    """Time inside OpenVINO, the mean over the steps, as all times are."""
    counted_s: float
    """The same while operations are timed."""
    operations: tuple[Operation, ...]
    """Longest first."""
    bandwidth: float
    """What the machine reads from memory, bytes a second."""
    layout: KVLayout
    """How keys and values are stored."""

    def cache_bytes(self, tokens: int) -> int:
        """Return the bytes of a KV cache for ``tokens`` tokens."""
        return -(-tokens // self.layout.block_tokens) * self.layout.block_bytes

    def table(self, model: str, step_s: float, rest_s: float) -> Table:
        """Breakdown of a step of ``step_s`` seconds, in ``rest_s`` of which no kernel runs."""
        rows = [self._row(f"{each.count} x {each.kind}", each.seconds, each.bytes) for each in self._shown()]
        computing = sum(each.seconds for each in self.operations)
        rows += [
            self._row("between operations", self.counted_s - computing),
            self._row(f"all of OpenVINO, {self.segments} pieces, with counters", self.counted_s),
            self._row("all of OpenVINO", self.inference_s, self.bytes),
            self._row("the runtime, between kernels", rest_s),
            self._row("a step", step_s, self.bytes),
            self._row("reading the same at the machine's bandwidth", self.bytes / self.bandwidth, self.bytes),
        ]
        return Table(
            title=f"where a decode step goes, {model} model, one stream",
            columns=("what", "ms a step", "reads MB", "GB/s"),
            rows=tuple(rows),
        )

    def _shown(self) -> list[Operation]:
        least = _SMALL * self.counted_s
        shown = [each for each in self.operations if each.bytes or each.seconds >= least]
        others = [each for each in self.operations if each not in shown]
        if others:
            count, seconds = sum(each.count for each in others), sum(each.seconds for each in others)
            shown.append(Operation("all others", count, seconds, 0))
        return shown

    @staticmethod
    def _row(what: str, seconds: float, read: int = 0) -> tuple[Cell, ...]:
        speed = round(read / seconds / 1e9, 1) if read and seconds > 0 else None
        return (what, round(seconds * 1e3, 3), round(read / 1e6, 1) if read else None, speed)


def measure_decode_step(path: Path, settings: Mapping[str, Any], *, past: int, steps: int) -> DecodeStep:
    """Time ``steps`` decode steps after ``past`` tokens, in the pieces that a runtime would load.

    ``settings`` are those of :class:`RuntimeConfig`. Measures the model's profile where their
    ``profile_folder`` has none yet.
    """
    from agentrt.runtime import RuntimeConfig
    from agentrt.runtime.heg.kernel import KernelKind
    from agentrt.runtime.heg.partition import Partition
    from agentrt.runtime.model.directory import open_model_directory
    from agentrt.runtime.model.paged import read_paged_graph
    from agentrt.runtime.xpu.loading import load_model
    from agentrt.runtime.xpu.machine import measure_read_bandwidth

    config = RuntimeConfig(**settings)
    directory = open_model_directory(path)
    loaded = load_model(
        directory,
        platform=config.platform,
        properties=config.device_properties(),
        max_chunk_tokens=config.prefill_chunk_tokens,
        quantum_s=config.quantum_s,
        profile_folder=config.profile_folder,
    )
    loaded.platform.close()
    profile, bounds = loaded.profile, loaded.graph.bounds
    del loaded
    pieces = {KernelKind.LAYERS: Partition(read_paged_graph(directory)).layer_segments(bounds[1:])}

    def warm(**properties: bool) -> Pieces:
        model = Pieces(pieces, config.device_properties() | properties, past + _WARM_UP + steps)
        model.forward([1] * past, 0, rows=1)
        _decode(model, past, _WARM_UP)
        return model

    plain, counting = warm(), warm(PERF_COUNT=True)
    before = counting.counters()
    # In turns: the machine's speed changes within the time that one of them takes.
    inference_s = counted_s = 0.0
    for done in range(0, steps, _STEPS_IN_TURN):
        turn = min(_STEPS_IN_TURN, steps - done)
        inference_s += _decode(plain, past + _WARM_UP + done, turn)
        counted_s += _decode(counting, past + _WARM_UP + done, turn)
    operations = _operations(
        before, counting.counters(), _weights(counting.models), warm_up=1 + _WARM_UP, steps=steps
    )
    kv = profile.layers * profile.past_bytes * (past + steps // 2)
    return DecodeStep(
        segments=len(bounds),
        bytes=profile.layers * profile.layer_bytes + profile.head_bytes + kv,
        inference_s=inference_s / steps,
        counted_s=counted_s / steps,
        operations=operations,
        # No busy moment may make the machine look slower than it is.
        bandwidth=max(profile.bandwidth, measure_read_bandwidth()),
        layout=plain.layout,
    )


def _decode(model: Pieces, past: int, steps: int) -> float:
    """Return the seconds of ``steps`` decode steps after ``past`` tokens."""
    seconds = 0.0
    for step in range(steps):
        model.forward([1], past + step, rows=1)
        seconds += model.seconds
    return seconds


def _operations(
    before: Sequence[ov.ProfilingInfo],
    after: Sequence[ov.ProfilingInfo],
    weights: Mapping[str, tuple[str, int]],
    *,
    warm_up: int,
    steps: int,
) -> tuple[Operation, ...]:
    """Operations by kind, and matrices by their shape, longest first.

    Counters hold the mean over all forward passes so far: ``warm_up`` of them in ``before``,
    ``steps`` more in ``after``.
    """
    seconds: defaultdict[str, float] = defaultdict(float)
    counts: defaultdict[str, int] = defaultdict(int)
    read: defaultdict[str, int] = defaultdict(int)
    for first, last in zip(before, after, strict=True):
        total = last.real_time * (warm_up + steps) - first.real_time * warm_up
        if not total:
            continue  # it was not run, or was no work
        shape, size = weights.get(last.node_name, ("", 0))
        kind = f"{last.node_type} {shape}".rstrip()
        seconds[kind] += total.total_seconds() / steps
        counts[kind] += 1
        read[kind] += size
    found = (Operation(kind, counts[kind], taken, read[kind]) for kind, taken in seconds.items())
    return tuple(sorted(found, key=lambda each: -each.seconds))


def _weights(models: Sequence[ov.CompiledModel]) -> dict[str, tuple[str, int]]:
    """Return shape and bytes of the matrix that each matmul reads, scales included, by the matmul's name."""
    found: dict[str, tuple[str, int]] = {}
    for model in models:
        for node in model.get_runtime_model().get_ordered_ops():
            constants = [value for value in node.input_values() if _layer_type(value.get_node()) == "Const"]
            if _layer_type(node) == "FullyConnected" and constants:
                out, into = list(constants[0].get_shape())[-2:]
                bits = sum(
                    math.prod(value.get_shape()) * value.get_element_type().bitwidth for value in constants
                )
                found[node.get_friendly_name()] = (f"{into} to {out}", bits // 8)
    return found


def _layer_type(node: ov.Node) -> str:
    return str(node.get_rt_info()["layerType"].value)
