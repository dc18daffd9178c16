"""The engine bench: the local runtime against other engines on the same model with the same settings."""

from __future__ import annotations

import itertools
import random
import statistics
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from agentrt.extras import require_extra

from ..common.bench_model import BenchModel, open_given_models
from ..common.machine import describe_machine
from ..common.prompts import Prompts
from ..common.report import BenchReport, Table
from ..common.served_runtime import EXACT
from ..engines.llama_cpp import SHARED_CACHE, LlamaCpp
from ..engines.local import OURS, AgentRT
from ..engines.openvino_genai import OpenVINOGenAI
from ..engines.side import EngineProcess, Messages, Request
from .cuts import COMPARED, agreement_table, compare_cuts, largest_difference
from .speeds import COLUMNS, DECODE, Rates, Work, answers_of, compare, least_ratio, words_for
from .step import measure_decode_step

if TYPE_CHECKING:
    from agentrt.runtime.engine.trace import TracedKernel

PROMPTS: Final = 50
"""Whose greedy tokens are compared."""
_GREEDY_TOKENS: Final = 48
BATCHES: Final = (8, 16)
"""Answers at once."""
CACHE_TOKENS: Final = 4096
"""Of the KV caches of all sides but LLMPipeline with its defaults, which chooses for itself. llama.cpp's
server allocates its whole cache when it starts, and agentrt keeps past prompts in what it has."""
_LLAMA_CPP_SEQUENCES: Final = 16
GROUP: Final = 128
"""The dynamic quantization group of all sides on OpenVINO: agentrt chooses it for models that bear it, and
OpenVINO's default is another one. A comparison of engines has to have the same work on both sides."""
PREFILL_TOKENS: Final = (512, 2048)
"""The figure is that of the first."""
_PROMPT_SHARE: Final = 0.8
"""Of a model's context, for the longest prompt: its words are not counted exactly, and an answer follows."""
DECODE_PROMPT_TOKENS: Final = 128
BATCH_PROMPT_TOKENS: Final = 64
STEPS: Final = 64
"""Decode steps whose operations are timed."""
_GENAI, _BATCHING, _LLAMA_CPP = "openvino_genai", "openvino_genai_batching", "llama_cpp"
_VS_GENAI: Final = "_ratio_vs_openvino_genai"
_VS_BEST: Final = "_ratio_vs_best_peer"
_SETTINGS: Final[Mapping[str, Any]] = {
    "platform": "cpu",  # where the other sides are, too
    "constrain_tool_calls": False,  # the other side says what the model says, valid or not
    "tool_prompt": "native",  # the other side has the model's chat template only
}
_TOOL: Final[dict[str, Any]] = {
    "type": "function",
    "function": {
        "name": "search_notes",
        "description": "Search the user's notes for a phrase.",
        "parameters": {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
    },
}


@dataclass(frozen=True, slots=True)
class Size:
    """Amount of work."""

    repetitions: int
    repetitions_by_default: int
    """Where each side has its own choice of groups; 0 leaves these rows out."""
    decode_tokens: int
    batch_tokens: int


SIZES: dict[bool, Size] = {False: Size(11, 5, 128, 64), True: Size(3, 0, 64, 32)}
_NANO_TIMES: Final = 4
"""How many times as often nano is measured, whose answers take milliseconds."""


def run(
    *, quick: bool, workloads: Path | None, progress: Callable[[str], None], model: str = "nano"
) -> BenchReport:
    """Compare greedy tokens, speed, memory and the parts of a decode step on ``model``.

    ``workloads`` is not used: greedy speed does not depend on the content of the prompts.

    Raises:
        ModelNotFoundError, ModelFormatError: the model cannot be opened.
        MissingExtraError: it is a GGUF file, and the extra ``bench`` is not installed.
    """
    machine, size = describe_machine(), SIZES[quick]
    if model == "nano":
        size = replace(size, repetitions=_NANO_TIMES * size.repetitions)
    found = open_given_models([model], progress)[model]
    if found.gguf is not None:
        require_extra("bench")  # llama.cpp
    progress(f"{found.title}: greedy tokens of {PROMPTS} prompts, f32")
    figures = {"greedy_equal_prompts": float(_greedy_equal_prompts(found))}
    with tempfile.TemporaryDirectory() as folder:
        measured, tables = _measure(found, Path(folder), size, progress)
    agreement = list(compare_cuts(found, COMPARED, progress))
    return BenchReport(
        bench="engine",
        machine=machine,
        figures={**figures, **measured, **largest_difference(agreement)},
        tables=(*tables, agreement_table(agreement)),
        method=_method(found, size),
    )


@contextmanager
def _sides(
    model: BenchModel, names: Iterable[str], settings: Mapping[str, Any]
) -> Iterator[dict[str, EngineProcess]]:
    """Yield the sides of these names, each in a process of its own."""
    path = str(model.path)
    parameters = {**SHARED_CACHE, "cache_ram_mib": 0}  # no prompt occurs twice
    opened: dict[str, tuple[Any, ...]] = {
        OURS: (AgentRT, path, settings),
        _GENAI: (OpenVINOGenAI, path, settings),
        _BATCHING: (OpenVINOGenAI, path, settings, CACHE_TOKENS),
        _LLAMA_CPP: (LlamaCpp, str(model.gguf), CACHE_TOKENS, _LLAMA_CPP_SEQUENCES, parameters),
    }
    with ExitStack() as stack:
        yield {name: stack.enter_context(EngineProcess(*opened[name])) for name in names}


def _greedy_equal_prompts(model: BenchModel) -> int:
    """Return how many of :data:`PROMPTS` prompts have equal greedy tokens on both sides, in f32.

    Half of the prompts offer a tool, if the model's chat template takes tools.
    """
    prompts, rng, equal = model.prompts(2), random.Random(0), 0
    with _sides(model, (OURS, _GENAI), {**_SETTINGS, **EXACT}) as sides:
        takes_tools = sides[OURS].call("call_format") is not None
        for index in range(PROMPTS):
            messages: Messages = [{"role": "user", "content": prompts.take(rng.choice([1, 5, 20, 60, 150]))}]
            tools = [_TOOL] if index % 2 and takes_tools else None
            request = Request(messages, _GREEDY_TOKENS, tools, ignore_eos=False)
            ours, theirs = (side.generate(request).token_ids for side in sides.values())
            equal += ours == theirs
    return equal


def _measure(
    model: BenchModel, profiles: Path, size: Size, progress: Callable[[str], None]
) -> tuple[dict[str, float], list[Table]]:
    """Return the figures and tables of speed, memory and a decode step; profiles are kept in ``profiles``."""
    name = model.title
    settings = {**_SETTINGS, "profile_folder": profiles}
    grouped = {**settings, "dynamic_quantization_group_size": GROUP}
    progress(f"{name}: profile, then the operations of a decode step")
    # First: a side that had to measure the profile itself would count the memory for that.
    step = measure_decode_step(model.path, grouped, past=DECODE_PROMPT_TOKENS, steps=STEPS)
    memory_bytes = {"memory_bytes": step.cache_bytes(CACHE_TOKENS)}
    names = [OURS, _GENAI, _BATCHING, *([_LLAMA_CPP] if model.gguf is not None else [])]
    progress(f"{name}: speed with dynamic quantization groups of {GROUP}")
    with _sides(model, names, {**grouped, **memory_bytes}) as sides:
        _warm_up(model, sides)
        work = _work(model, sides[OURS], size)
        rates = compare(sides, work, model.prompts(3), progress)
        decode = Request(model.prompts(5).take(work.decode_words), work.decode_tokens)
        rest_s = rest_between_steps(sides[OURS].call("kernels", decode))
        fraction = bandwidth_fraction(sides[OURS], step.bytes, model.prompts(6), work)
        memory = {side: process.call("peak_memory") for side, process in sides.items()}
    rows = [each.row(f"groups of {GROUP}") for each in rates]
    if size.repetitions_by_default:
        progress(f"{name}: speed with the groups of each side's choice")
        with _sides(model, names[:3], {**settings, **memory_bytes}) as sides:
            _warm_up(model, sides)
            fewer = replace(work, repetitions=size.repetitions_by_default)
            by_default = compare(sides, fewer, model.prompts(4), progress)
        rows += [each.row("each side's choice") for each in by_default]
    decoded = statistics.median(next(each.ours for each in rates if each.what == DECODE))
    figures = {
        **_ratios(rates, next(iter(work.prefills)), best=model.gguf is not None),
        "decode_bandwidth_fraction": fraction,
        "rest_between_steps_ms": rest_s * 1e3,
        **_memory_figures(memory),
    }
    speeds = Table(title=f"tokens per second, {name} model", columns=COLUMNS, rows=tuple(rows))
    return figures, [speeds, step.table(name, 1 / decoded, rest_s)]


def _ratios(rates: list[Rates], prefill: str, *, best: bool) -> dict[str, float]:
    """Return our speed over OpenVINO GenAI's, and with ``best`` over that of the fastest peer."""
    headline = {"decode": DECODE, "prefill": prefill}
    headline |= {f"batch{batch}": answers_of(batch) for batch in BATCHES}
    found = {f"{name}{_VS_GENAI}": least_ratio(rates, what, _GENAI) for name, what in headline.items()}
    if best:
        found |= {f"{name}{_VS_BEST}": least_ratio(rates, what) for name, what in headline.items()}
    return found


def prefill_tokens(model: BenchModel) -> tuple[int, ...]:
    """Return the prompt lengths of :data:`PREFILL_TOKENS` that ``model`` has room for, at least the first."""
    longest = int(_PROMPT_SHARE * model.context_length)
    fitting = tuple(tokens for tokens in PREFILL_TOKENS if tokens <= longest)
    return fitting or (min(PREFILL_TOKENS[0], longest),)


def rest_between_steps(kernels: Iterable[TracedKernel]) -> float:
    """Return the median seconds of a decode step in which none of its kernels runs.

    A step lasts from the start of its first kernel to that of the next step's. ``kernels`` are those of one
    request, in order, and have two decode steps at least.
    """
    decodes = (kernel for kernel in kernels if kernel.stage == "decode")
    steps = [list(step) for _, step in itertools.groupby(decodes, lambda kernel: kernel.batch_id)]
    return statistics.median(
        following[0].started - step[0].started - sum(kernel.ended - kernel.started for kernel in step)
        for step, following in itertools.pairwise(steps)
    )


def bandwidth_fraction(side: EngineProcess, step_bytes: int, prompts: Prompts, work: Work) -> float:
    """Return the median share of the machine's read bandwidth that decoding uses.

    A step reads ``step_bytes``. Each time both are measured one after the other: the bandwidth of a machine
    that is shared with others changes from minute to minute.
    """
    from agentrt.runtime.xpu.machine import measure_read_bandwidth

    shares: list[float] = []
    for _ in range(work.repetitions):
        answer = side.generate(Request(prompts.take(work.decode_words), work.decode_tokens))
        read = step_bytes * (answer.new_tokens - 1) / answer.decode_s
        shares.append(read / measure_read_bandwidth())
    return statistics.median(shares)


def _memory_figures(memory: Mapping[str, int | None]) -> dict[str, float]:
    """Return our peak memory divided by theirs; nothing where the system does not report it."""
    peaks = {side: peak for side, peak in memory.items() if peak is not None}
    if not peaks:
        return {}
    ours = peaks.pop(OURS)
    figures = {f"peak_rss{_VS_GENAI}": ours / peaks[_BATCHING]}
    if _LLAMA_CPP in peaks:
        figures[f"peak_rss{_VS_BEST}"] = ours / min(peaks.values())
    return figures


def _warm_up(model: BenchModel, sides: Mapping[str, EngineProcess]) -> None:
    """Warm the sides up with the longest prompt."""
    made = model.prompts(1)
    words = words_for(prefill_tokens(model)[-1], sides[OURS], made)
    for side in sides.values():
        side.generate(Request(made.take(words), 32))
        side.stream([Request(made.take(10), 8) for _ in range(max(BATCHES))])


def _work(model: BenchModel, side: EngineProcess, size: Size) -> Work:
    made = model.prompts(2)
    return Work(
        size.repetitions,
        {f"prefill, {tokens} tokens": words_for(tokens, side, made) for tokens in prefill_tokens(model)},
        decode_words=words_for(DECODE_PROMPT_TOKENS, side, made),
        decode_tokens=size.decode_tokens,
        batch_words=words_for(BATCH_PROMPT_TOKENS, side, made),
        batch_tokens=size.batch_tokens,
        batches=BATCHES,
    )


def _method(model: BenchModel, size: Size) -> str:
    llama_cpp, by_default = "", ""
    if model.gguf is not None:
        llama_cpp = (
            f" but llama.cpp's server (xllamacpp, {_LLAMA_CPP_SEQUENCES} sequences in one f16 cache, decode "
            "by its own clock), which has the GGUF file itself"
        )
    if size.repetitions_by_default:
        by_default = f" ({size.repetitions_by_default} with the groups of each side's choice)"
    return (
        f"{model.title} in the same OpenVINO directory for all sides{llama_cpp}, asked about passages of "
        "English prose (nano: words that it knows) in its own chat template; answers go on beyond the end "
        f"token where a number of tokens is timed. greedy_equal_prompts: of {PROMPTS} prompts, half of them "
        "with a tool if the template takes tools, at f32 without dynamic quantization. All sides on "
        f"OpenVINO quantise activations in groups of {GROUP}, as agentrt does by itself where a model bears "
        "it, and leave threads and other precisions to OpenVINO. agentrt has its default configuration but "
        f"for a KV cache of {CACHE_TOKENS:,} tokens, and cuts the model by a profile measured now. Beside "
        "it, each in its own process, are LLMPipeline with its defaults, and openvino_genai_batching: "
        "LLMPipeline over continuous batching with 256 tokens a step, split prompts, at most 16 sequences, "
        f"no prefix cache and as large a cache. {size.repetitions} repetitions, the engines taking turns at "
        f"going first{by_default}; a figure is the median of the ratios within a repetition, to whichever of "
        "the two does better, or for *_vs_best_peer of all peers. Prompts have about the tokens that the "
        f"table says, {DECODE_PROMPT_TOKENS} before {size.decode_tokens} decode steps and "
        f"{BATCH_PROMPT_TOKENS} before each of {' or '.join(map(str, BATCHES))} answers of "
        f"{size.batch_tokens}; the prefill figure is that of {prefill_tokens(model)[0]}. Peak memory is "
        "VmHWM after all that, beside openvino_genai_batching's, or the least of all peers'. "
        "rest_between_steps_ms is the median time of a decoded token in which no kernel of agentrt runs. "
        "The bandwidth fraction is what a decode step reads (weights and scales as stored, keys and values) "
        "times agentrt's steps a second, over the machine's read bandwidth, measured right behind them. The "
        "times of operations are OpenVINO's counters, in the pieces that the runtime runs, the mean over "
        f"{STEPS} steps; a matrix's reads are what OpenVINO keeps of it, with scales in f32. Logits are "
        f"compared at every position of a prompt of {COMPARED.chunks * COMPARED.chunk_tokens} tokens in "
        f"{COMPARED.chunks} chunks and of {COMPARED.decode_steps} decode steps; the figure is the largest "
        "difference at f32, in both ways to cut."
    )
