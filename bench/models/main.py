"""The bench of real models: exact tool calls, perplexity, greedy answers, opening; two peers beside."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from ..common.machine import Machine, describe_machine
from ..common.report import BenchReport, Table
from .architectures import ArchitectureResult, compare_architectures
from .bfcl import load_tasks
from .calls import CallResults, measure_calls, recall_of_recorded_answers
from .conversions import ConvertedType, compare_conversions
from .greedy import GreedyAnswer, compare_greedy_answers
from .llama_cpp import LlamaCpp
from .opening import CACHE_GIB, LONG_TOKENS, Openings, measure_openings
from .perplexity import Perplexities, compare_perplexities, load_texts
from .recorded_answers import RECORDED_ANSWERS
from .runtime_side import RuntimeSide

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class _Size:
    """How much is measured."""

    tasks: Mapping[str, int]
    """Of each group."""
    texts: int
    window: int
    """Tokens of each text."""
    prompts: int
    tokens: int
    """Of the answer to each prompt."""
    repeats: int
    """Openings on each side."""


_FULL: Final = _Size({"simple": 16, "multiple": 8, "parallel": 8, "irrelevance": 4}, 8, 256, 8, 32, 3)
_QUICK: Final = _Size({"simple": 3, "multiple": 2, "parallel": 2, "irrelevance": 1}, 4, 96, 3, 16, 1)
_CONTEXT: Final = 8192
_METHOD: Final = {
    "gguf_types_faithful": (
        "gguf_types_faithful counts the types of weights that a tiny model of each has, after conversion, as "
        "the gguf package reads them from the file, to half a step of 8 bits; gguf_types_largest_error is "
        "the largest difference, relative to the largest weight of a matrix."
    ),
    "architectures_equal": (
        "architectures_equal counts the tiny random models whose 24 greedy tokens in float32 are those that "
        "Transformers gave with the same weights."
    ),
    "tool_call_recall": (
        "tool_call_recall is the share of recorded answers, in {dialects} dialects, whose calls are read as "
        "recorded; false_calls counts the calls read in 1,000 answers that make none."
    ),
    "bfcl_": (
        "bfcl_*_exact is the share of BFCL's single-turn tasks (simple, multiple: one call; parallel: "
        "several; irrelevance: none) answered greedily with exactly the accepted calls, {tasks}, spread "
        "evenly over the workload."
    ),
    "_llama_cpp_reread": (
        "*_llama_cpp is the same of llama.cpp's server (xllamacpp) on the same file with its own chat "
        "template and parser; *_llama_cpp_reread reads the text of its answers with agentrt's parser."
    ),
    "ppl_ratio_vs_llama_cpp": (
        "ppl_ratio_vs_llama_cpp compares the perplexities of the first {window} tokens of {texts} texts of "
        "Spec-Bench, each token predicted after those before it: agentrt's kernels with their default "
        "settings, and llama.cpp's server, which decodes the same tokens one by one."
    ),
    "greedy_equal_openvino_genai": (
        "greedy_equal_openvino_genai counts the prompts whose answers of at most {tokens} tokens, in "
        "float32, are to the character those of OpenVINO GenAI on the converted model."
    ),
    "first_open_s": (
        "first_open_s is the time from an empty cache folder to the first token, with conversion and "
        "profile (first_open_profile_s of it), second_open_s that of the next process; "
        "first_open_peak_ratio_vs_weights is the first one's peak memory divided by the size of the "
        "converted weights; peak_rss_ratio_vs_openvino_genai compares the later openings' peak memory, "
        "after a prompt of about 400 tokens and an answer of {answer}, with that of OpenVINO GenAI's "
        "continuous batching of the converted model, each with a KV cache of {cache} GiB (medians of "
        "{repeats}, each side in turn). Every side runs in a process of its own."
    ),
}
"""What figures mean, by a part of their names."""
_NO_WORKLOADS: Final = "Exact tool calls (BFCL) and perplexity were left out: they need --workloads."
_NO_PEER: Final = "Perplexity and llama.cpp's tool calls were left out: they need a GGUF file."


@dataclass(frozen=True)
class _Runtime:
    """What was measured of a runtime, whatever the model."""

    types: Sequence[ConvertedType]
    architectures: Sequence[ArchitectureResult]
    recall: float
    false_calls: int

    def figures(self) -> dict[str, float]:
        errors = [each.error for each in self.types if each.error is not None]
        return {
            "gguf_types_faithful": sum(each.faithful for each in self.types),
            "gguf_types_tried": len(self.types),
            "gguf_types_largest_error": max(errors),
            "architectures_equal": sum(each.is_equal for each in self.architectures),
            "architectures_tried": len(self.architectures),
            "tool_call_recall": self.recall,
            "false_calls": self.false_calls,
        }

    def tables(self) -> tuple[Table, ...]:
        return (
            Table(
                title="weights of each GGUF type after conversion",
                columns=("type", "to half a step of 8 bits", "largest relative error"),
                rows=tuple((each.name, each.faithful, each.error) for each in self.types),
            ),
            Table(
                title="greedy tokens of each architecture",
                columns=("family", "tokens", "equal to Transformers'"),
                rows=tuple((each.family, each.tokens, each.equal) for each in self.architectures),
            ),
        )


@dataclass
class _Model:
    """What was measured of one model."""

    name: str
    openings: Openings
    greedy: Sequence[GreedyAnswer]
    calls: CallResults = field(default_factory=CallResults)
    perplexities: Perplexities | None = None

    def figures(self) -> dict[str, float]:
        """Its figures; those that were not measured are left out."""
        found: dict[str, float] = {}
        for name, group in self.calls.groups.items():
            if not group.tasks:
                continue
            found[f"bfcl_{name}_exact"] = group.exact / group.tasks
            if group.llama_cpp is not None and group.llama_cpp_reread is not None:
                found[f"bfcl_{name}_exact_llama_cpp"] = group.llama_cpp / group.tasks
                found[f"bfcl_{name}_exact_llama_cpp_reread"] = group.llama_cpp_reread / group.tasks
        if self.perplexities is not None:
            found["ppl"] = self.perplexities.ours
            found["ppl_ratio_vs_llama_cpp"] = self.perplexities.ours / self.perplexities.llama_cpp
        ratio = self.openings.second.peak_mib / self.openings.genai.peak_mib
        first = self.openings.first
        if first.weights_mib:
            found["first_open_peak_ratio_vs_weights"] = first.peak_mib / first.weights_mib
        return found | {
            "greedy_equal_openvino_genai": sum(each.is_equal for each in self.greedy),
            "greedy_tried": len(self.greedy),
            "first_open_s": self.openings.first.seconds,
            "second_open_s": self.openings.second.seconds,
            "first_open_profile_s": self.openings.first.profile_s,
            "first_open_peak_mib": self.openings.first.peak_mib,
            "second_open_peak_mib": self.openings.second.peak_mib,
            "peak_rss_ratio_vs_openvino_genai": ratio,
        }

    def tables(self) -> tuple[Table, ...]:
        greedy = Table(
            title=f"greedy answers of {self.name}",
            columns=("prompt", "characters", "equal to OpenVINO GenAI's"),
            rows=tuple((each.prompt, each.characters, each.equal) for each in self.greedy),
        )
        return (self._opening_table(), greedy, *([self._call_table()] if self.calls.groups else []))

    def _opening_table(self) -> Table:
        sides = {
            "agentrt, first time": self.openings.first,
            "agentrt, second time": self.openings.second,
            "OpenVINO GenAI, converted model": self.openings.genai,
        }
        rows = tuple((name, round(each.seconds, 2), round(each.peak_mib)) for name, each in sides.items())
        columns = ("side", "s to first token", "peak MiB")
        return Table(title=f"opening {self.name}", columns=columns, rows=rows)

    def _call_table(self) -> Table:
        columns = ("tasks", "number", "exact", "calls repaired", "llama.cpp exact", "llama.cpp, reread")
        rows = tuple(
            (name, each.tasks, each.exact, each.repaired, each.llama_cpp, each.llama_cpp_reread)
            for name, each in self.calls.groups.items()
        )
        return Table(title=f"BFCL tasks of {self.name}", columns=columns, rows=rows)


def run(*, quick: bool, workloads: Path | None, progress: Progress, model: str = "nano") -> BenchReport:
    """Measure ``model``.

    The folder ``workloads`` has BFCL's single-turn tasks and Spec-Bench, without which no tool call of a
    task and no perplexity is measured.

    Raises:
        ModelNotFoundError, ModelFormatError: the model is missing or damaged. Nothing was measured.
        WorkloadError: a workload is missing or damaged. Nothing was measured.
    """
    machine, size = describe_machine(), _QUICK if quick else _FULL
    model = _find_model(model)
    left_out = _check_workloads([model], workloads, size)
    for note in left_out:
        progress(note)
    runtime = _measure_runtime(progress)
    measured = _measure_model(model, workloads, size, machine, progress)
    figures = runtime.figures() | measured.figures()
    return _report(machine, size, figures, (*runtime.tables(), *measured.tables()), left_out)


def run_all(
    models: Sequence[Path], *, quick: bool, workloads: Path | None, progress: Progress
) -> BenchReport:
    """Measure several models, of which one table shows all figures side by side.

    The report's figures are those of the runtime, and those of each model with its name in front.

    Raises:
        ModelNotFoundError, ModelFormatError, WorkloadError: as :func:`run`.
    """
    machine, size = describe_machine(), _QUICK if quick else _FULL
    found = [_find_model(str(model)) for model in models]
    left_out = _check_workloads(found, workloads, size)
    for note in left_out:
        progress(note)
    runtime = _measure_runtime(progress)
    measured = [_measure_model(model, workloads, size, machine, progress) for model in found]
    figures = runtime.figures()
    for each in measured:
        figures |= {f"{each.name}: {name}": value for name, value in each.figures().items()}
    tables = [
        *runtime.tables(),
        *(table for each in measured for table in each.tables()),
        _side_by_side(measured),
    ]
    return _report(machine, size, figures, tables, left_out)


def _find_model(model: str) -> str:
    """Return the path of a model that can be opened; the models are opened with caches of their own."""
    from agentrt.runtime.model.directory import find_model, open_model_directory, summarize_model

    if model == "nano":
        return model
    path = find_model(model)
    if path.is_file():
        summarize_model(path)  # reads the head of a GGUF file, which opening would convert
    else:
        open_model_directory(path)
    return str(path)


def _check_workloads(models: Sequence[str], workloads: Path | None, size: _Size) -> list[str]:
    """Read the workloads once before the work begins, and return what is left out and why."""
    if workloads is None:
        return [_NO_WORKLOADS]
    load_tasks(workloads, size.tasks)
    if not any(map(_has_peer, models)):
        return [_NO_PEER]
    load_texts(workloads, size.texts)
    return []


def _has_peer(model: str) -> bool:
    """Whether llama.cpp reads the model, too."""
    return model.endswith(".gguf")


def _measure_runtime(progress: Progress) -> _Runtime:
    progress("converting tiny models of every type and architecture")
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        types, architectures = compare_conversions(Path(folder)), compare_architectures(Path(folder))
    return _Runtime(types, architectures, *recall_of_recorded_answers())


def _measure_model(
    model: str, workloads: Path | None, size: _Size, machine: Machine, progress: Progress
) -> _Model:
    with TemporaryDirectory(ignore_cleanup_errors=True) as cache:
        found = _Model(
            Path(model).stem,
            measure_openings(model, cache, size.repeats, progress),
            compare_greedy_answers(model, cache, size.prompts, size.tokens, progress),
        )
        if workloads is None:
            return found
        with ExitStack() as stack:
            peer = None
            if _has_peer(model):
                peer = stack.enter_context(LlamaCpp(model, machine.usable_cores, _CONTEXT))
            runtime = stack.enter_context(RuntimeSide(model, cache))
            found.calls = measure_calls(runtime, peer, load_tasks(workloads, size.tasks), progress)
        if peer is not None:
            texts = load_texts(workloads, size.texts)
            found.perplexities = compare_perplexities(
                model, cache, texts, size.window, machine.usable_cores, progress
            )
    return found


def _side_by_side(models: Sequence[_Model]) -> Table:
    figures = [each.figures() for each in models]
    names = dict.fromkeys(name for each in figures for name in each)
    return Table(
        title="real models",
        columns=("figure", *(each.name for each in models)),
        rows=tuple((f"`{name}`", *(each.get(name) for each in figures)) for name in names),
    )


def _report(
    machine: Machine,
    size: _Size,
    figures: Mapping[str, float],
    tables: Sequence[Table],
    left_out: Sequence[str],
) -> BenchReport:
    """Return the report, whose method explains the figures that it has."""
    explained = [text for part, text in _METHOD.items() if any(part in figure for figure in figures)]
    method = " ".join(explained).format(
        dialects=len({answer.dialect for answer in RECORDED_ANSWERS}),
        tasks=", ".join(f"{count} {name}" for name, count in size.tasks.items()),
        window=size.window,
        texts=size.texts,
        tokens=size.tokens,
        answer=LONG_TOKENS,
        cache=CACHE_GIB,
        repeats=size.repeats,
    )
    return BenchReport(
        bench="models",
        machine=machine,
        figures=dict(figures),
        tables=tuple(tables),
        method=" ".join([method, *left_out]),
    )
