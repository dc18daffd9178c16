"""The engine bench: the local runtime against other engines on the same model with the same settings."""

from __future__ import annotations

import functools
import itertools
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from agentrt.extras import require_extra

from ..common.bench_model import BenchModel, Prompts, open_given_models
from ..common.energy import EnergyMeter
from ..common.estimates import Estimate, exact, median, share
from ..common.machine import describe_machine
from ..common.report import BenchReport, Table
from ..common.served_runtime import EXACT, RuntimeService, ServedRuntime
from ..engines.llama_cpp import LLAMA_CPP, SHARED_CACHE, describe_builds, llama_cpp_builds
from ..engines.local import OURS, AgentRT
from ..engines.openvino_genai import OpenVINOGenAI
from ..engines.side import EngineProcess, Messages, Request
from .speeds import (
    COLUMNS,
    DECODE,
    PREFILL,
    Rates,
    Work,
    answers_of,
    compare,
    compare_long,
    decode_behind,
    least_ratio,
    prefill_of,
    words_for,
)

if TYPE_CHECKING:
    from agentrt.runtime.engine.trace import TracedKernel

PROMPTS: Final = 20
"""Whose greedy tokens are compared."""
_GREEDY_TOKENS: Final = 32
BATCHES: Final = (8, 16)
"""Answers at once."""
CACHE_TOKENS: Final = 4096
"""Of the KV caches of all sides but LLMPipeline with its defaults, which chooses for itself. llama.cpp's
server allocates its whole cache when it starts, and agentrt keeps past prompts in what it has."""
_LLAMA_CPP_SEQUENCES: Final = 16
GROUP: Final = 128
"""The dynamic quantization group of all sides on OpenVINO: agentrt chooses it for models that bear it, and
OpenVINO's default is another one. A comparison of engines has to have the same work on both sides."""
_GROUPS: Final = "dynamic_quantization_group_size"
LONG: Final = (2048, 16384)
"""Tokens of long prompts, as coding agents send them, where the model's context has room for them."""
_LONGEST_ROUND: Final = 10**9 * 16384
"""Bytes of a model times tokens of a prompt, with which the slowest side takes five minutes on two cores."""
_SPARE_TOKENS: Final = 512
"""For the answer, and what a prompt has more than was meant."""
PREFILL_TOKENS: Final = 512
DECODE_PROMPT_TOKENS: Final = 128
BATCH_PROMPT_TOKENS: Final = 64
_GENAI, _BATCHING = "openvino_genai", "openvino_genai_batching"
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
METHOD: Final = """\
OpenVINO GenAI has the OpenVINO directory that agentrt converts a GGUF file to for any device (8 bits, and \
activations in groups of 128, which it is told), agentrt's and llama.cpp's servers have the file itself. \
Keys and values have 8 bits, in agentrt's and llama.cpp's servers of a GGUF file 16, as by default. Nothing \
is drafted. They take turns at going first, each in a process of its own, with as many threads as there are \
cores. Else agentrt has its defaults, which choose by the model's weights and by a profile of the machine; \
no faster setting is known. OpenVINO GenAI runs as LLMPipeline with its defaults, and over continuous \
batching (256 tokens a step, split prompts, at most 16 sequences, no prefix cache). llama.cpp's builds take \
part in the first repetitions only, and answer eight requests at once at most; prompts of 2,048 and 16,384 \
tokens are measured as often as those, beside the build for this processor. A figure is the median of the \
ratios within a repetition, to whichever does best. greedy_equal_share is of prompts whose greedy tokens in \
f32 are OpenVINO GenAI's. An idle server has answered one request. \
Peak memory is VmHWM of a process of its own, after a prompt of 512 tokens and an answer. \
decode_bandwidth_fraction is what a decode step reads times our steps a second, over the machine's read \
bandwidth, measured right behind them."""

_ENERGY_METHOD: Final = """\
joules_per_token is what the processor's packages (RAPL) use while agentrt answers a prompt of 128 tokens, \
by the tokens of the answer, and mean_watts is that by its seconds; other processes are part of both."""


@dataclass(frozen=True, slots=True)
class Size:
    """Amount of work."""

    repetitions: int
    slow_repetitions: int
    """Of llama.cpp, and of what is measured in new processes."""
    decode_tokens: int
    batch_tokens: int
    idle_s: float


_SETTLED_S: Final = 35.0
"""What opening a model and an answer leave to do ends within it; freed memory is given back after 30 s."""
SIZES: dict[bool, Size] = {False: Size(5, 2, 64, 32, 60.0), True: Size(3, 1, 32, 16, 10.0)}


def run(
    *, quick: bool, workloads: Path | None, progress: Callable[[str], None], model: str = "nano"
) -> BenchReport:
    """Compare greedy tokens, speed and memory on ``model``.

    ``workloads`` is not used: greedy speed does not depend on the content of the prompts.

    Raises:
        ModelNotFoundError, ModelFormatError: the model cannot be opened.
        MissingExtraError: it is a GGUF file, and the extra ``bench`` is not installed.
    """
    machine, meter = describe_machine(), EnergyMeter()
    found = open_given_models([model], progress)[model]
    if found.gguf is not None:
        require_extra("bench")  # llama.cpp
    progress(f"{found.title}: greedy tokens of {PROMPTS} prompts, f32")
    figures = {"greedy_equal_share": share(_greedy_equal_prompts(found), PROMPTS)}
    with tempfile.TemporaryDirectory() as folder:
        measured, table = _measure(found, Path(folder), SIZES[quick], meter, progress)
    return BenchReport(
        bench="engine",
        machine=machine,
        figures={**figures, **measured},
        tables=(table,),
        method=" ".join(
            [
                *(METHOD, f"Energy is left out: {meter.absent}." if meter.absent else _ENERGY_METHOD),
                *([] if found.gguf is None else [describe_builds()]),
            ]
        ),
    )


def own_settings(model: BenchModel, settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return agentrt's settings: what a kernel takes, without drafts.

    With groups of activations it would round the weights of a GGUF file.
    """
    own = {**settings, "drafts": False}
    if model.gguf is not None and settings.get(_GROUPS) != 0:
        del own[_GROUPS]
    return own


@contextmanager
def _sides(
    model: BenchModel, names: Iterable[str], settings: Mapping[str, Any], cache_tokens: int = CACHE_TOKENS
) -> Iterator[dict[str, EngineProcess]]:
    """Yield the sides of these names, each in a process of its own."""
    path = str(model.path)
    parameters = {**SHARED_CACHE, "cache_ram_mib": 0}  # no prompt occurs twice
    opened: dict[str, tuple[Any, ...]] = {
        OURS: (AgentRT, model.opened, own_settings(model, settings)),
        _GENAI: (OpenVINOGenAI, path, settings),
        _BATCHING: (OpenVINOGenAI, path, settings, cache_tokens),
    }
    for name, build in llama_cpp_builds().items():
        opened[name] = (build, str(model.gguf), cache_tokens, _LLAMA_CPP_SEQUENCES, parameters)
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
    model: BenchModel, profiles: Path, size: Size, meter: EnergyMeter, progress: Callable[[str], None]
) -> tuple[dict[str, Estimate], Table]:
    """Return the figures of speed and memory, and the speeds; profiles are kept in ``profiles``."""
    name = model.title
    settings = {**_SETTINGS, "profile_folder": profiles, _GROUPS: GROUP}
    progress(f"{name}: profile")
    # First: a side that had to measure the profile itself would count the memory for that.
    step_bytes, cache_bytes = step_and_cache_bytes(model.opened, own_settings(model, settings))
    settings["memory_bytes"] = cache_bytes
    builds = [] if model.gguf is None else [*llama_cpp_builds()]
    progress(f"{name}: speed with dynamic quantization groups of {GROUP}")
    with _sides(model, [OURS, _GENAI, _BATCHING, *builds], settings) as sides:
        work = _work(model, sides[OURS], size)
        _warm_up(model, sides, work)
        rates = compare(sides, builds, work, model.prompts(3), progress)
        ours, decodes = sides[OURS], model.prompts(5)
        rests = [
            rest_between_steps(
                ours.call("kernels", Request(decodes.take(work.decode_words), work.decode_tokens))
            )
            for _ in range(size.repetitions)
        ]
        fractions = bandwidth_fractions(ours, step_bytes, model.prompts(6), work)
        energy = energy_figures(meter, ours, model.prompts(7), work)
        words = {tokens: words_for(tokens, ours, decodes) for tokens in LONG if _fits(model, tokens)}
    if words:
        rates += _compare_long(
            model, [OURS, _GENAI, _BATCHING, *builds[-1:]], settings, words, work, progress
        )
    progress(f"{name}: an idle server")
    wakeups, used = _idle(model, settings, size)
    progress(f"{name}: memory")
    peaks = _peak_memory(model, [OURS, _BATCHING, *builds[:1]], settings, work, size.slow_repetitions)
    figures = {
        **_ratios(rates),
        "decode_bandwidth_fraction": median(fractions),
        "rest_between_steps_ms": median([rest_s * 1e3 for rest_s in rests]),
        **energy,
        "idle_wakeups_per_s": exact(wakeups),
        "idle_cpu_s_in_5_min": exact(300 * used),
        **_memory_figures(peaks),
    }
    rows = tuple(each.row() for each in rates)
    return figures, Table(title=f"tokens per second, {name} model", columns=COLUMNS, rows=rows)


def _fits(model: BenchModel, tokens: int) -> bool:
    """Whether the model's context has room for prompts of so many tokens, and a round ends in minutes."""
    bytes = 0 if model.gguf is None else model.gguf.stat().st_size
    return tokens + _SPARE_TOKENS <= model.context_length and bytes * tokens <= _LONGEST_ROUND


def _compare_long(
    model: BenchModel,
    names: Sequence[str],
    settings: Mapping[str, Any],
    words: Mapping[int, int],
    work: Work,
    progress: Callable[[str], None],
) -> list[Rates]:
    """Return the rates on long prompts, with KV caches that hold the longest."""
    cache_tokens = max(words) + _SPARE_TOKENS
    bytes = settings["memory_bytes"] * cache_tokens // CACHE_TOKENS
    with _sides(model, names, {**settings, "memory_bytes": bytes}, cache_tokens) as sides:
        for side in sides.values():
            side.generate(Request(model.prompts(1).take(work.prefill_words), 32))
        return compare_long(sides, words, work, model.prompts(8), progress)


def _idle(model: BenchModel, settings: Mapping[str, Any], size: Size) -> tuple[float, float]:
    """Return wake-ups a second, and the share of a core, of a server that has answered once."""
    import httpx

    with ServedRuntime(_serve, model.opened, own_settings(model, settings)) as server:
        url = f"http://127.0.0.1:{server.port}/v1"
        name = httpx.get(f"{url}/models").json()["data"][0]["id"]
        asked = {"model": name, "messages": [{"role": "user", "content": "Hello!"}], "max_tokens": 4}
        httpx.post(f"{url}/chat/completions", json=asked, timeout=None).raise_for_status()
        time.sleep(_SETTLED_S)
        wakeups, used = server.call("idle", size.idle_s)
        return wakeups, used


def _serve(model: str, settings: Mapping[str, Any]) -> RuntimeService:
    from agentrt.runtime import RuntimeConfig
    from agentrt.runtime.serving.server import ServerConfig

    return RuntimeService(model, RuntimeConfig(**settings), ServerConfig(port=0))


def _peak_memory(
    model: BenchModel, names: Sequence[str], settings: Mapping[str, Any], work: Work, repetitions: int
) -> dict[str, list[int]]:
    """Return the peak memory of sides that answer one prompt; nothing where the system does not report it."""
    peaks: dict[str, list[int]] = {name: [] for name in names}
    prompts = model.prompts(4)
    for _, name in itertools.product(range(repetitions), names):
        with _sides(model, [name], settings) as sides:
            sides[name].generate(Request(prompts.take(work.prefill_words), work.decode_tokens))
            if (peak := sides[name].call("peak_memory")) is None:
                return {}
            peaks[name].append(peak)
    return peaks


def step_and_cache_bytes(model: str, settings: Mapping[str, Any]) -> tuple[int, int]:
    """Return the bytes that a decode step reads, and those of a KV cache of :data:`CACHE_TOKENS` tokens.

    ``settings`` are those of :class:`RuntimeConfig`. Measures the model's profile where their
    ``profile_folder`` has none yet.
    """
    from agentrt.runtime import RuntimeConfig
    from agentrt.runtime.local.assembly import library_for
    from agentrt.runtime.model.directory import open_model_directory
    from agentrt.runtime.xpu.loading import load_model

    config = RuntimeConfig(**settings)
    directory = open_model_directory(model, native=library_for(config))
    loaded = load_model(
        directory,
        platform=config.platform,
        properties=config.device_properties(keeps_weights=directory.keeps_weights),
        max_chunk_tokens=config.prefill_chunk_tokens,
        quantum_s=config.quantum_s,
        profile_folder=config.profile_folder,
    )
    loaded.platform.close()
    profile, layout = loaded.profile, loaded.layout
    past = profile.layers * profile.past_bytes * DECODE_PROMPT_TOKENS
    read = profile.layers * profile.layer_bytes + profile.head_bytes + past
    return read, -(-CACHE_TOKENS // layout.block_tokens) * layout.block_bytes


def _ratios(rates: list[Rates]) -> dict[str, Estimate]:
    """Return our speed over OpenVINO GenAI's, and over that of the fastest peer where there are others."""
    headline = {"decode": DECODE, "prefill": PREFILL}
    headline |= {f"batch{batch}": answers_of(batch) for batch in BATCHES}
    headline |= {f"prefill_at_{tokens}": prefill_of(tokens) for tokens in LONG}
    headline |= {f"decode_at_{tokens}": decode_behind(tokens) for tokens in LONG}
    measured = {each.what for each in rates}
    headline = {name: what for name, what in headline.items() if what in measured}
    found = {f"{name}_ratio_vs_{_GENAI}": least_ratio(rates, what, _GENAI) for name, what in headline.items()}
    others = {each.what for each in rates if not each.opponent.startswith(_GENAI)}
    return found | {
        f"{name}_ratio_vs_best_peer": least_ratio(rates, what)
        for name, what in headline.items()
        if what in others
    }


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


def bandwidth_fractions(side: EngineProcess, step_bytes: int, prompts: Prompts, work: Work) -> list[float]:
    """Return the share of the machine's read bandwidth that decoding uses, for each repetition.

    A step reads ``step_bytes``. Each time both are measured one after the other: the bandwidth of a machine
    that is shared with others changes from minute to minute.
    """
    from agentrt.runtime.xpu.machine import measure_read_bandwidth

    shares: list[float] = []
    for _ in range(work.repetitions):
        answer = side.generate(Request(prompts.take(work.decode_words), work.decode_tokens))
        read = step_bytes * (answer.new_tokens - 1) / answer.decode_s
        shares.append(read / measure_read_bandwidth())
    return shares


def energy_figures(
    meter: EnergyMeter, side: EngineProcess, prompts: Prompts, work: Work
) -> dict[str, Estimate]:
    """Return the joules of each token of an answer, and the mean watts; nothing where nothing can be read."""
    if meter.absent:
        return {}
    joules, watts = [], []
    for _ in range(work.repetitions):
        request = Request(prompts.take(work.decode_words), work.decode_tokens)
        answer, used = meter.measure(functools.partial(side.generate, request))
        joules.append(used.joules / answer.new_tokens)
        watts.append(used.watts)
    return {"joules_per_token": median(joules), "mean_watts": median(watts)}


def _memory_figures(peaks: Mapping[str, Sequence[int]]) -> dict[str, Estimate]:
    """Return our peak memory divided by theirs; nothing where the system does not report it."""
    return {
        f"peak_rss_ratio_vs_{name}": median(
            [ours / theirs for ours, theirs in zip(peaks[OURS], peaks[peer], strict=True)]
        )
        for name, peer in ((_GENAI, _BATCHING), (LLAMA_CPP, LLAMA_CPP))
        if peer in peaks
    }


def _warm_up(model: BenchModel, sides: Mapping[str, EngineProcess], work: Work) -> None:
    made = model.prompts(1)
    for side in sides.values():
        side.generate(Request(made.take(work.prefill_words), 32))
        side.stream([Request(made.take(10), 8) for _ in range(max(BATCHES))])


def _work(model: BenchModel, side: EngineProcess, size: Size) -> Work:
    made = model.prompts(2)
    return Work(
        size.repetitions,
        words_for(PREFILL_TOKENS, side, made),
        decode_words=words_for(DECODE_PROMPT_TOKENS, side, made),
        decode_tokens=size.decode_tokens,
        batch_words=words_for(BATCH_PROMPT_TOKENS, side, made),
        batch_tokens=size.batch_tokens,
        batches=BATCHES,
        slow_repetitions=size.slow_repetitions,
    )
