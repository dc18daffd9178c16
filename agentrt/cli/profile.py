"""``agentrt profile``: measure the cost of a model's kernels on this machine, and show how it is cut."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated

import typer

from ..concurrency.interrupts import interrupts_deferred
from ..extras import require_extra
from .output import JsonFile, output_console, table_of, write_errors

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from agentrt.runtime.heg.graph import ExecutionGraph
    from agentrt.runtime.heg.kernel import BatchShape, Kernel
    from agentrt.runtime.heg.profile import KernelCost, Profile

_DECODE_PAST = 512
_MOST_SEQUENCES = 64
_COLUMNS = ("kernels", "of", "XPU", "ms", "bandwidth", "footprint", "power")


def profile(
    model: Annotated[
        str | None,
        typer.Argument(
            help="nano, a model directory, or a GGUF file; nano if left out. A simulated machine has a model "
            "of its own.",
            show_default=False,
        ),
    ] = None,
    platform: Annotated[
        str, typer.Option(help="auto, cpu, emulated, intel-ultra or simulated:MACHINE.")
    ] = "auto",
    stored: Annotated[
        bool, typer.Option("--stored", help="Show the stored profile if there is one, instead of measuring.")
    ] = False,
    json: JsonFile = None,
) -> None:
    """Measure a model's kernels on this machine, store the profile for the runtime, and show it."""
    require_extra("runtime")
    console = output_console()
    measured, graph = _measure(model, platform, stored)
    _show(console, measured, graph)
    if json is not None:
        with write_errors(json):
            json.write_text(measured.model_dump_json(indent=1) + "\n", encoding="utf-8")


def _measure(model: str | None, platform: str, stored: bool) -> tuple[Profile, ExecutionGraph]:
    """Return the profile, and the execution graph that the runtime would use."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    with interrupts_deferred():
        from agentrt.bench.simulation.platform import PREFIX, simulate
        from agentrt.bench.simulation.rooflines import simulated_profile
        from agentrt.runtime import RuntimeConfig
        from agentrt.runtime.heg.granularity import QUANTUM_S, choose_granularity
        from agentrt.runtime.heg.partition import Partition
        from agentrt.runtime.heg.store import ProfileStore
        from agentrt.runtime.local.assembly import library_for
        from agentrt.runtime.model.directory import open_model_directory
        from agentrt.runtime.model.read_graph import read_paged_graph
        from agentrt.runtime.xpu.loading import load_profile
        from agentrt.runtime.xpu.platforms import find_platform
        from agentrt.runtime.xpu.profiler import count_steps

    config = RuntimeConfig()
    longest = config.prefill_chunk_tokens
    if platform.startswith(PREFIX):
        if model is not None:
            raise typer.BadParameter(
                "a simulated machine has a model of its own: leave it out", param_hint="MODEL"
            )
        _, graph = simulate(platform, max_chunk_tokens=longest, quantum_s=QUANTUM_S)
        return simulated_profile(platform.removeprefix(PREFIX)), graph
    _, devices = find_platform(platform)
    native = library_for(config.model_copy(update={"platform": platform}))
    directory = open_model_directory("nano" if model is None else model, native=native)
    bar = Progress(TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), transient=True)
    with bar:
        task = bar.add_task("reading the model", total=1 + count_steps(devices, longest))

        def advance(step: str) -> None:
            bar.update(task, advance=1, description=step)

        measured = load_profile(
            directory,
            platform,
            config.device_properties(keeps_weights=directory.keeps_weights),
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
    """Print the costs of typical batches kernel by kernel, the rooflines, and the granularity."""
    from agentrt.runtime.heg.kernel import BatchShape
    from agentrt.runtime.scheduler.policy import AGENT_XPU

    chunk, margin = graph.chunk_tokens(0, 10**6), graph.chunk_tokens(0, (graph.static_tokens or 10**6) - 1)
    batch_size = graph.max_decode_batch(AGENT_XPU.backfill_slowdown, [_DECODE_PAST] * _MOST_SEQUENCES)
    batches = {
        f"decode after {_DECODE_PAST} tokens": BatchShape(1, 1, _DECODE_PAST, 1),
        f"decode of {batch_size} sequences": BatchShape(
            batch_size, batch_size, batch_size * _DECODE_PAST, batch_size
        ),
        f"prefill of {chunk} tokens": BatchShape(chunk, 1, 0, 0),
        f"prefill of {margin} tokens": BatchShape(margin, 1, 0, 0),
    }
    for title, shape in batches.items():
        console.print(_kernel_table(title, shape, measured, graph))
    console.print(_roofline_table(measured))
    longest = max(
        measured.estimate(kernel, shape, kernel.roles[0]).seconds
        for shape in batches.values()
        for kernel in graph.kernels_for(shape)
    )
    source = "measured on this machine" if measured.measured else "from published peak figures, not measured"
    console.print(
        f"{measured.layers} layers in {len(graph.bounds)} compiled segments; prompt chunks of up to {chunk} "
        f"tokens; up to {batch_size} sequences decode together at little extra cost; longest kernel "
        f"{longest * 1e3:.1f} ms. Memory: {measured.bandwidth / 1e9:.1f} GB/s. All figures {source}.",
        highlight=False,
    )


def _kernel_table(title: str, shape: BatchShape, measured: Profile, graph: ExecutionGraph) -> Table:
    """Return the costs of a batch's kernels; equal kernels share a row."""
    kernels = Counter(
        _row(measured, kernel, measured.estimate(kernel, shape, kernel.roles[0]))
        for kernel in graph.kernels_for(shape)
    )
    return table_of(title, _COLUMNS, [(str(count), *row) for row, count in kernels.items()])


def _roofline_table(measured: Profile) -> Table:
    columns = ("XPU", "for", "arithmetic", "weights read")
    rows = [
        (
            xpu.device,
            role.value,
            f"{xpu.peak_flops / 1e9:,.0f} GFLOP/s",
            f"{xpu.peak_bandwidth / 1e9:.1f} GB/s",
        )
        for role, xpu in measured.xpus.items()
    ]
    return table_of("rooflines", columns, rows)


def _row(measured: Profile, kernel: Kernel, cost: KernelCost) -> tuple[str, ...]:
    return (
        f"{len(kernel.layers)} layers" if kernel.kind.value == "layers" else kernel.kind.value,
        measured.xpus[kernel.roles[0]].device,
        f"{cost.seconds * 1e3:.2f}",
        f"{cost.bandwidth_share:.0%}",
        f"{cost.bytes / 2**20:.1f} MiB",
        f"{cost.watts:.0f} W, estimated",
    )
