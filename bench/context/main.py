"""The bench of contexts: traces of LLMS on every side, restarts, and what keeping contexts costs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from ..common.bench_model import BenchModel, open_given_models
from ..common.crash_points import crash_points
from ..common.machine import Machine, describe_machine
from ..common.parts import ContextPart
from ..common.report import BenchReport
from ..models.bfcl import FILE as BFCL
from ..models.bfcl import load_tasks
from .accuracy import measure_accuracy
from .density import measure_density_overhead
from .figures import Measured
from .methods import method_of
from .poison import measure_poison
from .recompute import measure_recompute
from .restart import measure_restart
from .slowdown import measure_slowdown
from .sweeps import SweepPoint, Texts, Traces, TraceSize
from .tables import tables_of
from .texts import TaskTexts, load_texts, own_texts
from .tool_calls import measure_tool_calls
from .traces import TASKS

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured."""

    traces: TraceSize
    restarts: tuple[int, ...]
    """Tokens of the contexts that are continued after a restart."""
    repeats: int
    """Restarts of each."""
    batches: int
    """Of requests with and without stored contexts, and prompts with and without density."""
    texts: int
    """Of which the second half is predicted after a stored first half."""
    window: int
    """Tokens of each."""
    prompt_tokens: int
    """Of prompts for which contexts are stored, recomputed or damaged."""
    completions: int
    """After each kind of damage."""
    tasks: Mapping[str, int]
    """Of BFCL, by group."""
    crashes: int
    """Processes that are killed while they store contexts."""


_TASKS: Final = {"simple": 16, "multiple": 8, "parallel": 8}
_TRACES: Final = TraceSize((2, 4, 8, 16), 6, 2048, 2.25, sweeps=True)
FULL: Final = Size(_TRACES, (1000, 8000), 3, 7, 24, 1024, 512, 100, _TASKS, 500)
_FEW_TASKS: Final = {"simple": 2, "multiple": 2}
_FEW_TRACES: Final = TraceSize((3, 8), 3, 512, 2.5, sweeps=False)
QUICK: Final = Size(_FEW_TRACES, (1000,), 1, 2, 2, 512, 128, 4, _FEW_TASKS, 20)
SIZES: dict[bool, Size] = {False: FULL, True: QUICK}

_MARGIN_TOKENS: Final = 512


def run(
    *,
    quick: bool,
    workloads: Path | None,
    progress: Progress,
    model: str = "nano",
    parts: Collection[ContextPart] = tuple(ContextPart),
) -> BenchReport:
    """Measure ``parts`` with ``model``.

    Prompts come from the folder ``workloads``, with Spec-Bench and MTRAG; without it the bench has its own.

    Raises:
        ModelNotFoundError, ModelFormatError: the model cannot be opened.
        WorkloadError: a workload is missing or damaged.
    """
    from agentrt.runtime import LocalRuntime, RuntimeConfig

    from .arena import token_bytes

    machine, size = describe_machine(), SIZES[quick]
    found = open_given_models([model], progress)[model]
    with LocalRuntime.open(model, RuntimeConfig(kv_cache_precision="u8")) as runtime:
        texts_of = _texts(found, workloads)
        texts = texts_of(runtime.count_tokens)
        bytes_a_token = token_bytes(runtime)
    measured = Measured()
    sweeps: list[SweepPoint] = []
    left_out = [f"{part} (not asked for)" for part in ContextPart if part not in parts]
    length = min(size.traces.max_tokens, found.context_length - _MARGIN_TOKENS)
    if ContextPart.TRACES in parts:
        traces = Traces(model, bytes_a_token, texts_of, replace(size.traces, max_tokens=length), progress)
        measured.replayed += traces.sides()
        sweeps += traces.sweeps()
    if ContextPart.RESTARTS in parts:
        left_out += _measure_restarts(measured, model, found, size, texts, machine, progress)
    if ContextPart.STORAGE in parts:
        _measure_storage(measured, model, size, texts, progress)
    if ContextPart.COMPRESSION in parts:
        _measure_compression(measured, model, size, texts, workloads, progress)
    return BenchReport(
        bench="context",
        machine=machine,
        figures=measured.figures(),
        tables=tables_of(measured, sweeps),
        method=method_of(size.traces, length, size.repeats, measured, left_out),
    )


def _measure_storage(
    measured: Measured, model: str, size: Size, texts: TaskTexts, progress: Progress
) -> None:
    measured.slowdown = measure_slowdown(model, size.prompt_tokens, size.batches, texts, progress)
    measured.density_overhead_pct = measure_density_overhead(
        model, size.prompt_tokens, size.batches, texts, progress
    )
    measured.recomputed = measure_recompute(model, size.prompt_tokens, texts, progress)
    measured.poisoned = measure_poison(model, size.prompt_tokens, size.completions, texts, progress)
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        progress(f"{size.crashes} processes that are killed")
        measured.crashes = crash_points(Path(folder), size.crashes)


def _measure_compression(
    measured: Measured,
    model: str,
    size: Size,
    texts: TaskTexts,
    workloads: Path | None,
    progress: Progress,
) -> None:
    measured.accuracies = measure_accuracy(model, _long_texts(texts, size), size.window, progress)
    if workloads is not None and (workloads / BFCL).is_file():
        measured.tool_calls = measure_tool_calls(model, load_tasks(workloads, size.tasks), progress)


def _measure_restarts(
    measured: Measured,
    model: str,
    found: BenchModel,
    size: Size,
    texts: TaskTexts,
    machine: Machine,
    progress: Progress,
) -> list[str]:
    """Measure the restarts whose contexts fit the model; return what was left out."""
    left_out = []
    for tokens in size.restarts:
        if tokens + _MARGIN_TOKENS > found.context_length:
            left_out.append(f"restarts with {tokens} tokens (longer than the model's context)")
            continue
        measured.restarts.append(measure_restart(model, tokens, texts, size.repeats, machine, {}, progress))
    return left_out


def _texts(model: BenchModel, workloads: Path | None) -> Texts:
    if workloads is None:
        return lambda count_tokens: own_texts(model.prompts(0), count_tokens)
    return lambda count_tokens: load_texts(workloads, count_tokens)


def _long_texts(texts: TaskTexts, size: Size) -> list[str]:
    """Return texts that are longer than a window, as their tokens are only estimated."""
    return [texts.take(TASKS[1], round(1.5 * size.window)) for _ in range(size.texts)]
