"""The bench of real models: exact tool calls and perplexity beside llama.cpp, and opening."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from agentrt.calls import CallFinished, MessageParser, ToolCall, ToolCallFormat, ToolDefinitions

from ..common.estimates import Estimate, share
from ..common.machine import describe_machine
from ..common.report import BenchReport, Table
from ..engines.llama_cpp import LlamaCpp
from ..engines.local import AgentRT
from ..engines.side import EngineProcess, Request, with_cache
from .bfcl import Task, load_tasks
from .opening import opening_figures
from .perplexity import load_texts, perplexity_figures

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class _Size:
    """How much is measured."""

    tasks: int
    """Of the development set, and as many that are held back."""
    texts: int
    """Likewise."""
    window: int
    """Tokens of each text."""
    openings: int
    """First ones, each with a second one behind it."""


_FULL: Final = _Size(10, 10, 128, 3)
_QUICK: Final = _Size(3, 4, 64, 1)
_SETS: Final = {"": False, "_held_back": True}
"""What figures of a set end with, and whether it is held back."""
_CONTEXT: Final = 8192
_MOST_TOKENS: Final = 256
"""Of an answer with calls."""
METHOD: Final = """\
bfcl_simple_exact is the share of BFCL's single-turn tasks with one tool that are answered greedily with \
exactly the accepted call, spread evenly over the workload; bench outside has its other categories. \
*_llama_cpp is the same of llama.cpp's server (xllamacpp) on the same file with its own chat template and \
parser; *_llama_cpp_reread reads the text of its answers with agentrt's parser. ppl_ratio_vs_llama_cpp \
compares the perplexities of Spec-Bench's texts, each token predicted after those before it: agentrt's \
kernels with their default settings, and llama.cpp's server, which decodes the same tokens one by one; \
intervals are over texts. *_held_back is the same of tasks and texts that nothing is tuned on, those whose \
id has a SHA-256 that begins with an odd byte. first_open_s is the time from an empty cache folder to the \
first token, with conversion and profile (first_open_profile_s of it), second_open_s that of the next \
process; first_open_peak_ratio_vs_weights is the first one's peak memory, after a prompt of about 400 \
tokens and an answer of 16, by the size of the converted weights, with a KV cache of 1 GiB. Every side \
runs in a process of its own."""
_NO_WORKLOADS: Final = "Exact tool calls (BFCL) and perplexity were left out: they need --workloads."
_NO_PEER: Final = "Perplexity and llama.cpp's tool calls were left out: they need a GGUF file."


def run(
    *, quick: bool, workloads: Path | None, progress: Progress, models: Sequence[str] = ("nano",)
) -> BenchReport:
    """Measure ``models``; the figures of several have the name of a model in front.

    The folder ``workloads`` has BFCL's single-turn tasks and Spec-Bench, without which no tool call of a
    task and no perplexity is measured.

    Raises:
        ModelNotFoundError, ModelFormatError: a model is missing or damaged. Nothing was measured.
        WorkloadError: a workload is missing or damaged. Nothing was measured.
    """
    machine, size = describe_machine(), _QUICK if quick else _FULL
    found = [_find_model(model) for model in models]
    left_out = _check_workloads(found, workloads, size)
    for note in left_out:
        progress(note)
    measured = {Path(model).stem: _measure_model(model, workloads, size, progress) for model in found}
    figures: dict[str, Estimate] = {}
    for name, of_model in measured.items():
        figures |= {f"{name}: {each}" if models[1:] else each: value for each, value in of_model.items()}
    names = dict.fromkeys(name for each in measured.values() for name in each)
    return BenchReport(
        bench="models",
        machine=machine,
        figures=figures,
        tables=(
            Table(
                title="real models",
                columns=("figure", *measured),
                rows=tuple((f"`{name}`", *(each.get(name) for each in measured.values())) for name in names),
            ),
        ),
        method=" ".join([METHOD, *left_out]),
    )


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
    _load_tasks(workloads, size)
    if not any(map(_has_peer, models)):
        return [_NO_PEER]
    load_texts(workloads, size.texts, held_back=True)
    return []


def _load_tasks(workloads: Path, size: _Size) -> dict[str, list[Task]]:
    """Return the tasks by set."""
    counts = {"simple": size.tasks}
    return {each: load_tasks(workloads, counts, held_back=of)["simple"] for each, of in _SETS.items()}


def _has_peer(model: str) -> bool:
    """Whether llama.cpp reads the model, too."""
    return model.endswith(".gguf")


def _measure_model(
    model: str, workloads: Path | None, size: _Size, progress: Progress
) -> dict[str, Estimate]:
    """Return the figures of a model; those that were not measured are left out."""
    opening = opening_figures(model, size.openings, progress)
    found: dict[str, Estimate] = {}
    if workloads is not None:
        with TemporaryDirectory(ignore_cleanup_errors=True) as cache:
            found |= _call_figures(model, cache, _load_tasks(workloads, size), progress)
            for each, held_back in _SETS.items() if _has_peer(model) else ():
                if not (texts := load_texts(workloads, size.texts, held_back=held_back)):
                    continue
                figures = perplexity_figures(model, cache, texts, size.window, progress)
                found |= {f"{name}{each}": figure for name, figure in figures.items()}
    return {**found, **opening}


def _call_figures(
    model: str, cache: str, tasks: Mapping[str, Sequence[Task]], progress: Progress
) -> dict[str, Estimate]:
    """Put every task of each set to the model, greedily, in both engines one after the other."""
    found: dict[str, Estimate] = {}
    with ExitStack() as stack:
        peer = None
        if _has_peer(model):
            opened = (LlamaCpp, model, _CONTEXT, 1, {"use_jinja": True})
            peer = stack.enter_context(EngineProcess(*opened))
        runtime = stack.enter_context(EngineProcess(with_cache, cache, AgentRT, model))
        format = runtime.call("call_format") or "hermes"
        for name, group in ((name, group) for name, group in tasks.items() if group):
            solved: dict[str, list[bool]] = {}
            for number, task in enumerate(group, 1):
                progress(f"calls{name.replace('_', ' ')}, task {number} of {len(group)}")
                request = Request(task.messages, _MOST_TOKENS, task.tools, ignore_eos=False)
                calls = {"": runtime.generate(request).calls}
                if peer is not None:
                    answer = peer.generate(request)
                    calls["_llama_cpp"] = answer.calls
                    reread = answer.calls or calls_in(answer.text, format, task.tools)
                    calls["_llama_cpp_reread"] = tuple(reread)
                for suffix, made in calls.items():
                    solved.setdefault(suffix, []).append(task.solved_by(made))
            for suffix, each in solved.items():
                found[f"bfcl_simple_exact{suffix}{name}"] = share(sum(each), len(each))
    return found


def calls_in(text: str, format: str, tools: Sequence[Mapping[str, object]]) -> list[ToolCall]:
    """Return the calls of ``tools`` in the whole answer of a model with this format."""
    own: ToolCallFormat = getattr(ToolCallFormat, format.upper())
    parser = MessageParser(own, ToolDefinitions(tools, trusted=own))
    events = parser.feed(text) + parser.close()
    return [event.call for event in events if isinstance(event, CallFinished)]
