"""Loads a model directory onto a platform: profile, granularity, compilation."""

from __future__ import annotations

import hashlib
import logging
import math
import shlex
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import openvino as ov

from agentrt.errors import ConfigurationError

from ..heg.granularity import choose_granularity
from ..heg.graph import ExecutionGraph
from ..heg.kernel import KernelKind, Role
from ..heg.partition import Partition, with_static_tokens
from ..heg.profile import Profile
from ..heg.store import MachineFigures, ProfileStore, fingerprint
from ..model.directory import ModelDirectory
from ..model.kv_layout import KVLayout
from ..model.opening import OnOpeningStep, OpeningStep, ignore_step
from ..model.openvino_core import openvino_core
from ..model.paged import STATE_TABLES
from ..model.read_graph import read_paged_graph
from .buffers import BufferPool
from .compiled import CompiledKernels, least_sequences
from .device import OpenVINOXPU
from .graph_loader import export_graphs
from .machine import available_memory, measure_read_bandwidth, usable_cores
from .platforms import Device, OpenVINOPlatform, find_platform
from .profiler import Profiler

_BUSY_SPREAD: Final = 0.2
"""Spread of repeated timings from which they are unreliable: other programs took the processor."""

_INTERRUPTIBLE_QUANTA: Final = 4
"""Quanta in the longest kernel that can be interrupted. What it has computed until then is lost: half of it
on the average, which is 50 ms for each question of a user by default."""

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model on a platform: its kernels, their costs, and the layout of its KV blocks."""

    platform: OpenVINOPlatform
    """Create a :class:`KVArena` of :attr:`layout` on it before the first batch."""
    graph: ExecutionGraph
    profile: Profile
    layout: KVLayout
    vocabulary_size: int


def load_model(
    directory: ModelDirectory,
    *,
    platform: str,
    properties: Mapping[str, Any],
    max_chunk_tokens: int,
    quantum_s: float,
    kv_bytes: int = 0,
    profile_folder: Path | None = None,
    npu_decoding: bool = False,
    scored_layers: int = 0,
    usual_settings: bool = False,
    on_step: OnOpeningStep = ignore_step,
    on_read: Callable[[int], None] = lambda vocabulary_size: None,
) -> LoadedModel:
    """Load the model of ``directory`` onto a platform, cut as its profile advises.

    ``kv_bytes`` will be needed for the KV cache. ``npu_decoding`` has an XPU of static shapes decode as well,
    where the platform has one. ``scored_layers`` put out attention scores.

    Measures the profile first if ``profile_folder`` has none for this model on these devices, which takes
    seconds. ``on_step`` is called with what is measured next, and before the model is compiled. ``on_read``
    is called with the number of tokens that the model knows, once that is known and nothing is measured any
    more: it may begin what can be done while the model is compiled.

    Raises:
        ModelFormatError: the graph cannot be read or is not a decoder that paged attention understands.
        ConfigurationError: there is no such platform here, a device refuses the properties, or there is too
            little memory.
    """
    platform, _ = find_platform(platform)
    store = ProfileStore(profile_folder)
    profile = load_profile(
        directory,
        platform,
        properties,
        max_chunk_tokens=max_chunk_tokens,
        store=store,
        npu_decoding=npu_decoding,
        usual_settings=usual_settings,
        advance=lambda measured: on_step(OpeningStep(f"measuring: {measured}")),
    )
    on_step(OpeningStep("loading"))
    return build_model(
        directory,
        platform,
        properties,
        profile,
        max_chunk_tokens=max_chunk_tokens,
        quantum_s=quantum_s,
        kv_bytes=kv_bytes,
        graph_folder=store.folder / "graphs",
        scored_layers=scored_layers,
        on_read=on_read,
    )


def build_model(
    directory: ModelDirectory,
    platform: str,
    properties: Mapping[str, Any],
    profile: Profile,
    *,
    max_chunk_tokens: int,
    quantum_s: float,
    kv_bytes: int = 0,
    graph_folder: Path | None = None,
    scored_layers: int = 0,
    on_read: Callable[[int], None] = lambda vocabulary_size: None,
) -> LoadedModel:
    """Cut the model of ``directory`` as ``profile`` advises and compile it for the devices of a platform.

    ``scored_layers`` of its attentions put out their scores (:attr:`BatchContext.scores`). Where ``profile``
    has graphs for decoding, all graphs of the PREFILL XPU are kept in ``graph_folder``, which is needed then.
    For ``on_read`` see :func:`load_model`.

    Raises:
        ConfigurationError: a device refuses the properties, or there is too little memory.
    """
    _, devices = find_platform(platform)
    model = read_paged_graph(directory, tell_prompts=Role.PREFILL not in devices)
    vocabulary = model.outputs[0].get_partial_shape()[-1].get_length()
    on_read(vocabulary)
    partition = Partition(model, scored_layers=scored_layers)
    if not partition.complete:
        warnings.warn(
            f"the graph of {directory.graph} can be cut in front of {len(partition.seams)} of its "
            f"{partition.layers - 1} inner layers only: its kernels are longer than necessary, so that a "
            "reactive request may wait longer behind a proactive one, and its prefill cannot be shared "
            "between an NPU and a GPU. Export the model again with a current optimum-intel.",
            RuntimeWarning,
            stacklevel=2,
        )
    graph = choose_granularity(
        profile,
        partition.seams,
        block_tokens=profile.block_tokens,
        max_chunk_tokens=max_chunk_tokens,
        quantum_s=quantum_s,
        interruptible_s=_INTERRUPTIBLE_QUANTA * quantum_s if _can_be_interrupted(model, devices) else None,
    )
    # Overflow prevention (Agent.xpu §6.5). Memory is promised by the system before it is there: without this
    # check the process would be swapped, or ended, while it compiles or much later.
    footprint, available = graph.footprint_bytes, available_memory()
    if available is not None and footprint + kv_bytes > available:
        raise ConfigurationError(
            f"the model's kernels need up to {footprint / 2**30:.1f} GiB and the KV cache "
            f"{kv_bytes / 2**30:.1f} GiB, but {available / 2**30:.1f} GiB of memory are available. Choose a "
            "smaller or further quantised model or a smaller memory_bytes, or end other programs."
        )
    pool = BufferPool(
        math.lcm(graph.static_tokens or 1, graph.decode_tokens or 1),
        scored=scored_layers > 0,
        least_sequences=least_sequences([model]),
    )

    def open_xpu(role: Role, device: Device) -> OpenVINOXPU:
        kernels = _compile(role, device, graph, partition, properties)

        def recompile() -> CompiledKernels:
            # From disk: a model in memory would be a copy of its weights.
            read = read_paged_graph(directory, tell_prompts=Role.PREFILL not in devices)
            again = Partition(read, scored_layers=scored_layers)
            return _compile(role, device, graph, again, properties)

        loader = None
        if role is Role.PREFILL and graph.decode_tokens is not None:
            assert graph_folder is not None, "graphs for decoding are kept in files"
            name = fingerprint(profile=profile.fingerprint, bounds=graph.bounds)
            loader = export_graphs(kernels, graph, partition, graph_folder / name)
        return OpenVINOXPU(role, pool, kernels, recompile, loader)

    xpus = {
        role: open_xpu(role, device)
        for role, device in devices.items()
        if role is Role.DECODE or graph.static_tokens is not None
    }
    kernels = xpus[Role.DECODE].kernels
    return LoadedModel(
        OpenVINOPlatform(platform, xpus, pool, directory.graph.with_suffix(".bin")),
        graph,
        profile,
        KVLayout.of(kernels.models),
        vocabulary,
    )


def _can_be_interrupted(model: ov.Model, devices: Mapping[Role, Device]) -> bool:
    """Whether a kernel of ``model`` on ``devices`` ends soon when it is cancelled, and can be run once more.

    The CPU heeds a cancellation between two operations. The states of a hybrid model are updated in place.
    """
    if any(port.get_any_name().startswith(STATE_TABLES) for port in model.inputs):
        return False
    return len(devices) == 1 and all(device.name.startswith("CPU") for device in devices.values())


def load_profile(
    directory: ModelDirectory,
    platform: str,
    properties: Mapping[str, Any],
    *,
    max_chunk_tokens: int,
    store: ProfileStore,
    npu_decoding: bool = False,
    usual_settings: bool = False,
    fresh: bool = False,
    advance: Callable[[str], None] = lambda step: None,
) -> Profile:
    """Return the profile of a model on a platform: the stored one, or a measured one, which is stored.

    ``npu_decoding`` measures graphs for decoding on the PREFILL XPU, too. ``usual_settings`` says that
    ``properties`` and ``max_chunk_tokens`` are those of ``agentrt profile``, which can then measure it again.
    ``fresh`` measures in any case. ``advance`` is called with the name of each step before it starts.
    """
    platform, devices = find_platform(platform)
    npu_decoding = npu_decoding and Role.PREFILL in devices
    weights = directory.graph.with_suffix(".bin")
    core = openvino_core()
    machine = {"processor": core.get_property("CPU", "FULL_DEVICE_NAME"), "cores": usable_cores()}
    name = fingerprint(
        platform=platform,
        devices={
            role.value: [device.name, core.get_property(device.name, "FULL_DEVICE_NAME"), device.properties]
            for role, device in devices.items()
        },
        openvino=ov.__version__,
        graph=hashlib.sha256(directory.graph.read_bytes()).hexdigest(),
        weights=weights.stat().st_size,
        properties=properties,
        max_chunk_tokens=max_chunk_tokens,
        **({"npu_decoding": True} if npu_decoding else {}),
        **machine,
    )

    def measure() -> Profile:
        advance("memory bandwidth")
        figures = store.stored(
            f"machine-{fingerprint(**machine)}.json",
            MachineFigures,
            lambda: MachineFigures(read_bandwidth=measure_read_bandwidth()),
        )
        profiler = Profiler(
            read_paged_graph(directory, tell_prompts=Role.PREFILL not in devices),
            weights,
            properties,
            max_chunk_tokens=max_chunk_tokens,
            bandwidth=figures.read_bandwidth,
            npu_decoding=npu_decoding,
            advance=advance,
        )
        measured = profiler.measure(devices, name)
        if profiler.spread > _BUSY_SPREAD:
            again = f"delete {store.file_of(name)} and open the model"
            if usual_settings:
                model = shlex.quote(directory.opened_as or str(directory.path))
                again = f"agentrt profile {model} --platform {platform}"
            _log.warning(
                "The profile of %s was measured on a busy machine: repeated timings differ by %.0f %%. It "
                "gets more exact while the model serves. To measure it again when the machine is idle: %s",
                directory.model_id,
                100 * profiler.spread,
                again,
            )
        return measured

    if fresh:
        store.forget(name)
    return store.profile(name, measure)


def _compile(
    role: Role, device: Device, graph: ExecutionGraph, partition: Partition, properties: Mapping[str, Any]
) -> CompiledKernels:
    """Cut the pieces of a model that the XPU of ``role`` runs, and compile them."""
    split = graph.bounds[-1]
    pieces: dict[KernelKind, list[ov.Model]] = {}
    if role is Role.DECODE:
        pieces[KernelKind.LAYERS] = partition.layer_segments(graph.bounds[1:])
        if graph.static_tokens is not None:
            pieces[KernelKind.ATTENTION] = [partition.attention(layer) for layer in range(split)]
    elif graph.static_tokens is not None:
        tokens = graph.static_tokens
        pieces[KernelKind.TOKENS] = [
            with_static_tokens(group, tokens) for group in partition.token_groups(split)
        ]
    return CompiledKernels(pieces, device.name, {**properties, **device.properties})
