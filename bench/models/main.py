"""The bench of real models: exact tool calls, perplexity, greedy answers, opening; two peers beside."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from agentrt.calls import CallFinished, MessageParser, ToolCall, ToolCallFormat, ToolDefinitions

from ..common.machine import describe_machine
from ..common.report import BenchReport, Table
from ..common.served_runtime import EXACT
from ..engines.llama_cpp import LlamaCpp
from ..engines.local import AgentRT
from ..engines.openvino_genai import OpenVINOGenAI
from ..engines.side import EngineProcess, Request, with_cache
from .bfcl import Task, load_tasks
from .opening import CACHE_GIB, LONG_TOKENS, converted, opening_figures
from .perplexity import load_texts, perplexity_figures

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
_MOST_TOKENS: Final = 256
"""Of an answer with calls."""
PROMPTS: Final = (
    "Write a short poem about rain.",
    "def fibonacci(n):",
    "What is 7 times 8? Answer briefly.",
    "Translate to German, French and Japanese: Good morning, how are you?",
    'Return {"city": ..., "days": ...} as JSON for three days in Oslo.',
    "Explain how a hash table works, with an example in Python.",
    "Plan a weekend in Lisbon 🇵🇹 in a table with times, places and prices in €.",
    "Name all planets\n\n1. Mercury\n2. Venus\n3.",
)
"""Prose, code, numbers, other scripts, JSON, markup."""
_METHOD: Final = {
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


def run(*, quick: bool, workloads: Path | None, progress: Progress, model: str = "nano") -> BenchReport:
    """Measure ``model``.

    The folder ``workloads`` has BFCL's single-turn tasks and Spec-Bench, without which no tool call of a
    task and no perplexity is measured.

    Raises:
        ModelNotFoundError, ModelFormatError: the model is missing or damaged. Nothing was measured.
        WorkloadError: a workload is missing or damaged. Nothing was measured.
    """
    return _run([model], quick, workloads, progress, named=False)


def run_all(
    models: Sequence[Path], *, quick: bool, workloads: Path | None, progress: Progress
) -> BenchReport:
    """Measure several models; the report's figures have the name of a model in front.

    Raises:
        ModelNotFoundError, ModelFormatError, WorkloadError: as :func:`run`.
    """
    return _run([str(model) for model in models], quick, workloads, progress, named=True)


def _run(
    models: Sequence[str], quick: bool, workloads: Path | None, progress: Progress, *, named: bool
) -> BenchReport:
    machine, size = describe_machine(), _QUICK if quick else _FULL
    found = [_find_model(model) for model in models]
    left_out = _check_workloads(found, workloads, size)
    for note in left_out:
        progress(note)
    measured = {Path(model).stem: _measure_model(model, workloads, size, progress) for model in found}
    figures: dict[str, float] = {}
    for name, of_model in measured.items():
        figures |= {f"{name}: {each}" if named else each: value for each, value in of_model.items()}
    explained = [text for part, text in _METHOD.items() if any(part in figure for figure in figures)]
    method = " ".join(explained).format(
        tasks=", ".join(f"{count} {name}" for name, count in size.tasks.items()),
        window=size.window,
        texts=size.texts,
        tokens=size.tokens,
        answer=LONG_TOKENS,
        cache=CACHE_GIB,
        repeats=size.repeats,
    )
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
        method=" ".join([method, *left_out]),
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
    load_tasks(workloads, size.tasks)
    if not any(map(_has_peer, models)):
        return [_NO_PEER]
    load_texts(workloads, size.texts)
    return []


def _has_peer(model: str) -> bool:
    """Whether llama.cpp reads the model, too."""
    return model.endswith(".gguf")


def _measure_model(model: str, workloads: Path | None, size: _Size, progress: Progress) -> dict[str, float]:
    """Return the figures of a model; those that were not measured are left out."""
    with TemporaryDirectory(ignore_cleanup_errors=True) as cache:
        opening = opening_figures(model, cache, size.repeats, progress)
        greedy = greedy_figures(model, cache, size, progress)
        found: dict[str, float] = {}
        if workloads is not None:
            found |= _call_figures(model, cache, load_tasks(workloads, size.tasks), progress)
            if _has_peer(model):
                texts = load_texts(workloads, size.texts)
                found |= perplexity_figures(model, cache, texts, size.window, progress)
    return {**found, **greedy, **opening}


def greedy_figures(model: str, cache: str, size: _Size, progress: Progress) -> dict[str, float]:
    """Return how many greedy answers in float32 are, to the character, those of OpenVINO GenAI."""
    asked = [
        Request([{"role": "user", "content": prompt}], size.tokens, ignore_eos=False)
        for prompt in PROMPTS[: size.prompts]
    ]
    progress(f"greedy answers of {model} in float32")
    with EngineProcess(with_cache, cache, AgentRT, model, EXACT) as runtime:
        ours = [runtime.generate(each).text for each in asked]
    with EngineProcess(with_cache, cache, converted, OpenVINOGenAI, model, EXACT) as genai:
        theirs = [genai.generate(each).text for each in asked]
    for request, own, other in zip(asked, ours, theirs, strict=True):
        if own != other:
            same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(own, other, strict=False)))
            progress(f"{request.prompt}: another answer behind {same} characters")
    equal = sum(own == other for own, other in zip(ours, theirs, strict=True))
    return {"greedy_equal_openvino_genai": equal, "greedy_tried": len(asked)}


def _call_figures(
    model: str, cache: str, tasks: Mapping[str, Sequence[Task]], progress: Progress
) -> dict[str, float]:
    """Put every task to the model, greedily, in both engines one after the other."""
    found: dict[str, float] = {}
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
                progress(f"{name} calls, task {number} of {len(group)}")
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
                found[f"bfcl_{name}_exact{suffix}"] = sum(each) / len(each)
    return found


def calls_in(text: str, format: str, tools: Sequence[Mapping[str, object]]) -> list[ToolCall]:
    """Return the calls of ``tools`` in the whole answer of a model with this format."""
    own: ToolCallFormat = getattr(ToolCallFormat, format.upper())
    parser = MessageParser(own, ToolDefinitions(tools, trusted=own))
    events = parser.feed(text) + parser.close()
    return [event.call for event in events if isinstance(event, CallFinished)]
