"""``agentrt profile``: measure what a model's kernels cost on this machine, and how it is cut for that."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..extras import require_extra

if TYPE_CHECKING:
    from rich.console import Console

    from agentrt.runtime.heg.cost_model import KernelCost
    from agentrt.runtime.heg.graph import ExecutionGraph
    from agentrt.runtime.heg.kernel import Kernel
    from agentrt.runtime.heg.profile import Profile

_DECODE_PAST = 512
_COLUMNS = ("kernels", "of", "XPU", "ms", "bandwidth", "footprint", "power")


def profile(
    model: Annotated[str, typer.Argument(help="nano, a model directory, or a GGUF file.")] = "nano",
    platform: Annotated[
        str, typer.Option(help="auto, cpu, emulated, intel-ultra or simulated:MACHINE.")
    ] = "auto",
    stored: Annotated[
        bool, typer.Option("--stored", help="Show the stored profile if there is one, instead of measuring.")
    ] = False,
    json: Annotated[Path | None, typer.Option(help="Write the profile to this file.", dir_okay=False)] = None,
) -> None:
    """Measure a model's kernels here, keep the figures for the runtime, and show them."""
    require_extra("runtime")
    from rich.console import Console

    console = Console()
    measured, graph = _measure(model, platform, stored)
    _show(console, measured, graph)
    if json is not None:
        json.write_text(measured.model_dump_json(indent=1) + "\n", encoding="utf-8")


def _measure(model: str, platform: str, stored: bool) -> tuple[Profile, ExecutionGraph]:
    """The profile, and how the runtime would cut the model."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from agentrt.runtime import RuntimeConfig
    from agentrt.runtime.heg.granularity import QUANTUM_S, choose_granularity
    from agentrt.runtime.heg.partition import Partition
    from agentrt.runtime.heg.store import ProfileStore
    from agentrt.runtime.model.directory import open_model_directory
    from agentrt.runtime.model.paged import read_paged_graph
    from agentrt.runtime.xpu.loading import load_profile
    from agentrt.runtime.xpu.platforms import find_platform
    from agentrt.runtime.xpu.profiler import count_steps
    from agentrt.runtime.xpu.rooflines import simulated_profile
    from agentrt.runtime.xpu.simulated import PREFIX, simulate

    config = RuntimeConfig()
    longest = config.prefill_chunk_tokens
    if platform.startswith(PREFIX):
        _, graph = simulate(platform, max_chunk_tokens=longest, quantum_s=QUANTUM_S)
        return simulated_profile(platform.removeprefix(PREFIX)), graph
    directory = open_model_directory(model)
    name, devices = find_platform(platform)
    bar = Progress(TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), transient=True)
    with bar:
        task = bar.add_task("reading the model", total=1 + count_steps(devices, longest))

        def advance(step: str) -> None:
            bar.update(task, advance=1, description=step)

        measured = load_profile(
            directory,
            name,
            devices,
            config.device_properties(),
            max_chunk_tokens=longest,
            store=ProfileStore(),
            fresh=not stored,
            advance=advance,
        )
    graph = choose_granularity(
        measured,
        Partition(read_paged_graph(directory)).seams,
        block_tokens=measured.block_tokens,
        max_chunk_tokens=longest,
        quantum_s=QUANTUM_S,
    )
    return measured, graph


def _show(console: Console, measured: Profile, graph: ExecutionGraph) -> None:
    """Print the costs of typical passes kernel by kernel, the rooflines, and the granularity."""
    from rich.table import Table

    from agentrt.runtime.heg.kernel import BatchShape

    static = graph.static_tokens
    whole, margin = graph.chunk_tokens(0, 10**6), graph.chunk_tokens(0, (static or 10**6) - 1)
    batch = graph.max_decode_batch(1.25)
    passes = {
        f"decode, {_DECODE_PAST} tokens behind it": BatchShape(1, 1, _DECODE_PAST, 1),
        f"decode of {batch}": BatchShape(batch, batch, batch * _DECODE_PAST, batch),
        f"prefill of {whole}": BatchShape(whole, 1, 0, 0),
        f"prefill of {margin}": BatchShape(margin, 1, 0, 0),
    }
    for title, shape in passes.items():
        table = Table(*_COLUMNS, title=title, title_justify="left")
        kernels = Counter(
            _row(measured, kernel, measured.estimate(kernel, shape, kernel.roles[0]))
            for kernel in graph.kernels_for(shape)
        )
        for row, count in kernels.items():
            table.add_row(str(count), *row)
        console.print(table)
    rooflines = Table("XPU", "for", "arithmetic", "weights read", title="rooflines", title_justify="left")
    for role, xpu in measured.xpus.items():
        rooflines.add_row(
            xpu.device,
            role.value,
            f"{xpu.peak_flops / 1e9:,.0f} GFLOP/s",
            f"{xpu.peak_bandwidth / 1e9:.1f} GB/s",
        )
    console.print(rooflines)
    longest = max(
        measured.estimate(kernel, shape, kernel.roles[0]).seconds
        for shape in passes.values()
        for kernel in graph.kernels_for(shape)
    )
    source = "measured on this machine" if measured.measured else "from published peak figures, not measured"
    console.print(
        f"{measured.layers} layers in {len(graph.bounds)} compiled segments; prompt chunks of up to {whole} "
        f"tokens; {batch} sequences decode together at little cost; longest kernel {longest * 1e3:.1f} ms. "
        f"Memory: {measured.bandwidth / 1e9:.1f} GB/s. All figures {source}.",
        highlight=False,
    )


def _row(measured: Profile, kernel: Kernel, cost: KernelCost) -> tuple[str, ...]:
    return (
        f"{len(kernel.layers)} layers" if kernel.kind.value == "layers" else kernel.kind.value,
        measured.xpus[kernel.roles[0]].device,
        f"{cost.seconds * 1e3:.2f}",
        f"{cost.bandwidth_share:.0%}",
        f"{cost.bytes / 2**20:.1f} MiB",
        f"{cost.watts:.1f} W" if measured.power_measured else f"{cost.watts:.0f} W, estimated",
    )
