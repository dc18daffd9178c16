"""The bench of real models: exact tool calls, opening times, memory; llama.cpp and OpenVINO GenAI beside."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from ..common.machine import describe_machine
from ..common.report import BenchReport, Table
from .architectures import ArchitectureResult, compare_architectures
from .bfcl import load_tasks
from .calls import CallResults, measure_calls, recall_of_recorded_answers
from .conversions import ConvertedType, compare_conversions
from .llama_cpp import LlamaCpp
from .opening import Openings, measure_openings
from .recorded_answers import RECORDED_ANSWERS

_CONTEXT = 8192
_METHOD = (
    "gguf_types_exact counts the types of weights that a tiny model of each has, after conversion, as the "
    "gguf package reads them from the file, bit for bit; gguf_types_largest_error is the largest difference "
    "of the others, relative to the largest weight of a matrix. architectures_equal counts the tiny random "
    "models whose 24 greedy tokens in float32 are those that Transformers gave with the same weights. "
    "tool_call_recall is the share of recorded answers, in {dialects} dialects, whose calls are read as "
    "recorded; false_calls counts the calls read in 1,000 answers that make none. bfcl_*_exact is the "
    "share of BFCL's single-turn tasks (simple, multiple: one call; parallel: several; irrelevance: none) "
    "answered greedily with exactly the accepted calls, {tasks} tasks of each kind spread evenly over the "
    "workload. *_llama_cpp is the same of llama.cpp's server (xllamacpp) on the same file with its own "
    "chat template and parser; the last column reads the text of its answers with agentrt's parser. "
    "first_open_s is the time from an empty cache folder to the first token, with conversion and profile, "
    "second_open_s that of the next process; peak_rss_ratio_vs_openvino_genai compares the second "
    "opening's peak memory with that of OpenVINO GenAI's continuous batching of the converted model, each "
    "with a KV cache of 1 GiB."
)


def run(
    *, quick: bool, workloads: Path | None, progress: Callable[[str], None], model: str = "nano"
) -> BenchReport:
    """Measure ``model``. Tool calls of tasks need the folder ``workloads`` with BFCL's single-turn tasks."""
    machine = describe_machine()
    progress("converting tiny models of every type and architecture")
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        types, architectures = compare_conversions(Path(folder)), compare_architectures(Path(folder))
    progress(f"opening {model} with an empty cache, again, and with OpenVINO GenAI")
    openings = measure_openings(model)
    recall, false_calls = recall_of_recorded_answers()
    tasks = {} if workloads is None else load_tasks(workloads, 8 if quick else 60)
    results = CallResults()
    if tasks:
        from agentrt.runtime import LocalRuntime

        with ExitStack() as stack:
            peer = None
            if model.endswith(".gguf"):
                peer = stack.enter_context(LlamaCpp(model, machine.usable_cores, _CONTEXT))
            runtime = stack.enter_context(LocalRuntime.open(model))
            results = measure_calls(runtime, peer, tasks, progress)
    return BenchReport(
        bench="models",
        machine=machine,
        figures={
            **_conversion_figures(types, architectures),
            "tool_call_recall": recall,
            "false_calls": false_calls,
            **_call_figures(results),
            **_opening_figures(openings),
        },
        tables=(
            *_conversion_tables(types, architectures),
            _opening_table(model, openings),
            *([_call_table(model, results)] if tasks else []),
        ),
        method=_METHOD.format(
            dialects=len({answer.dialect for answer in RECORDED_ANSWERS}), tasks=8 if quick else 60
        ),
    )


def _conversion_figures(
    types: Sequence[ConvertedType], architectures: Sequence[ArchitectureResult]
) -> Mapping[str, float]:
    errors = [each.error for each in types]
    return {
        "gguf_types_exact": sum(each.exact for each in types),
        "gguf_types_tried": len(types),
        **(
            {}
            if None in errors
            else {"gguf_types_largest_error": max(each for each in errors if each is not None)}
        ),
        "architectures_equal": sum(each.is_equal for each in architectures),
        "architectures_tried": len(architectures),
    }


def _conversion_tables(
    types: Sequence[ConvertedType], architectures: Sequence[ArchitectureResult]
) -> tuple[Table, Table]:
    return (
        Table(
            title="weights of each GGUF type after conversion",
            columns=("type", "exact", "largest relative error"),
            rows=tuple((each.name, each.exact, each.error) for each in types),
        ),
        Table(
            title="greedy tokens of each architecture",
            columns=("family", "tokens", "equal to Transformers'"),
            rows=tuple((each.family, each.tokens, each.equal) for each in architectures),
        ),
    )


def _call_figures(results: CallResults) -> Mapping[str, float]:
    figures = {}
    for name, group in results.groups.items():
        if not group.tasks:
            continue
        figures[f"bfcl_{name}_exact"] = group.exact / group.tasks
        if group.llama_cpp is not None:
            figures[f"bfcl_{name}_exact_llama_cpp"] = group.llama_cpp / group.tasks
    return figures


def _opening_figures(openings: Openings) -> Mapping[str, float]:
    return {
        "first_open_s": openings.first.seconds,
        "second_open_s": openings.second.seconds,
        "first_open_peak_mib": openings.first.peak_mib,
        "peak_rss_ratio_vs_openvino_genai": openings.second.peak_mib / openings.genai.peak_mib,
    }


def _opening_table(model: str, openings: Openings) -> Table:
    sides = {
        "agentrt, first time": openings.first,
        "agentrt, second time": openings.second,
        "OpenVINO GenAI, converted model": openings.genai,
    }
    rows = tuple((name, round(each.seconds, 2), round(each.peak_mib)) for name, each in sides.items())
    return Table(
        title=f"opening {Path(model).name}", columns=("side", "s to first token", "peak MiB"), rows=rows
    )


def _call_table(model: str, results: CallResults) -> Table:
    columns = ("tasks", "number", "exact", "calls repaired", "llama.cpp exact", "llama.cpp, reread")
    rows = tuple(
        (name, each.tasks, each.exact, each.repaired, each.llama_cpp, each.llama_cpp_reread)
        for name, each in results.groups.items()
    )
    return Table(title=f"BFCL tasks of {Path(model).name}", columns=columns, rows=rows)
