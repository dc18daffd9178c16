"""The engine bench: the local runtime against openvino_genai on the same model with the same settings."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ._engine_sides import EngineSide, Messages, Settings, SideName
from .machine import describe_machine
from .report import BenchReport, Cell, Table

_SIDES: tuple[SideName, SideName] = ("agentrt", "openvino_genai")
_WORDS = (
    "mail note plan garden roof dentist friday invoice oslo weather lasagne recipe meeting train ticket "
    "hotel budget report draft birthday present school football practice doctor insurance car repair"
)
_BATCH = 8
_TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "search_notes",
        "description": "Search the user's notes for a phrase.",
        "parameters": {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
    },
}


@dataclass(frozen=True, slots=True)
class _Size:
    """How much one run of the bench does."""

    repetitions: int
    decode_tokens: int
    batch_tokens: int


_QUICK = _Size(repetitions=15, decode_tokens=256, batch_tokens=96)
_FULL = _Size(repetitions=101, decode_tokens=512, batch_tokens=192)
_PREFILL_WORDS = (100, 400)
_EQUALITY_TOKENS = 48


@dataclass(frozen=True, slots=True)
class _Rates:
    """Tokens per second of each side, one value per repetition."""

    label: str
    agentrt: list[float]
    openvino_genai: list[float]

    @property
    def ratio(self) -> float:
        """The median over repetitions of ours ÷ theirs; neighbours in time are compared with each other."""
        return statistics.median(
            ours / theirs for ours, theirs in zip(self.agentrt, self.openvino_genai, strict=True)
        )

    def row(self, settings: str) -> tuple[Cell, ...]:
        ours, theirs = statistics.median(self.agentrt), statistics.median(self.openvino_genai)
        return (settings, self.label, round(ours, 1), round(theirs, 1), round(self.ratio, 3))


def run(*, quick: bool, workloads: Path | None, progress: Callable[[str], None]) -> BenchReport:
    """Compare greedy tokens, prefill and decode speed on the nano model.

    ``workloads`` is not used: greedy speed does not depend on what the prompts say.
    """
    from agentrt.runtime.nano import MODEL_DIRECTORY

    machine = describe_machine()
    model = str(MODEL_DIRECTORY)
    threads = machine.usable_cores
    size = _QUICK if quick else _FULL
    exact = Settings(threads, inference_precision="f32", kv_cache_precision="f32")
    usual = Settings(threads, inference_precision=None, kv_cache_precision=None)
    rows: list[tuple[Cell, ...]] = []
    with _both(model, exact) as sides:
        progress("greedy tokens of 50 prompts, f32")
        equal = _count_equal(sides)
        progress(f"equal: {equal} of 50; speed at f32")
        rows += [rates.row("f32, f32 KV") for rates in _speeds(sides, size, progress)]
    with _both(model, usual) as sides:
        progress("speed at OpenVINO's own precisions")
        speeds = _speeds(sides, size, progress)
        rows += [rates.row("OpenVINO's choice") for rates in speeds]
    *prefills, decode, _batch = speeds
    return BenchReport(
        bench="engine",
        machine=machine,
        figures={
            "greedy_equal_prompts": equal,
            "decode_ratio_vs_openvino_genai": decode.ratio,
            "prefill_ratio_vs_openvino_genai": prefills[-1].ratio,
        },
        tables=(
            Table(
                title=f"tokens per second, nano model, {threads} threads",
                columns=("precision", "what", "agentrt", "openvino_genai", "ratio"),
                rows=tuple(rows),
            ),
        ),
        method=_method(threads, size),
    )


def _method(threads: int, size: _Size) -> str:
    return (
        f"The nano model in two processes, one per engine, both with {threads} threads, the same inference "
        "and KV precision and OpenVINO's default dynamic quantization. openvino_genai is LLMPipeline with "
        f"its defaults. {size.repetitions} repetitions, the engines taking turns at going first; a ratio is "
        "the median of the ratios within a repetition. No prompt occurs twice, so that no cache helps. "
        "Prefill is the whole call for one token: chat template, tokenizer, model, detokenizer. Decode is "
        f"from the first token to the last of {size.decode_tokens}, by each engine's own clock. Answers are "
        f"{_BATCH} prompts at once with {size.batch_tokens} tokens each, from the call to the last answer. "
        "Figures are those at OpenVINO's own precisions, prefill for the longer prompt; greedy tokens are "
        "compared at f32."
    )


@contextmanager
def _both(model: str, settings: Settings) -> Iterator[dict[SideName, EngineSide]]:
    """Both engines, loaded and warm."""
    with ExitStack() as stack:
        sides = {name: stack.enter_context(EngineSide(name, model, settings)) for name in _SIDES}
        warm_up = _prompts(seed=1)
        for side in sides.values():
            for _ in range(3):
                side.time_one(next(warm_up)(100), 32)
                side.time_batch([next(warm_up)(20) for _ in range(_BATCH)], 8)
        yield sides


def _prompts(seed: int) -> Iterator[Callable[[int], str]]:
    """Makers of prompts of so many words; no two share a beginning that a cache could use."""
    rng = random.Random(seed)
    while True:
        yield lambda words: " ".join(rng.choices(_WORDS.split(), k=words))


def _count_equal(sides: dict[SideName, EngineSide]) -> int:
    """Of 50 prompts, half of them with tools, those whose greedy tokens are equal."""
    rng = random.Random(0)
    prompts = _prompts(seed=2)
    equal = 0
    for index in range(50):
        messages: Messages = [{"role": "user", "content": next(prompts)(rng.choice([1, 5, 20, 60, 150]))}]
        tools = [_TOOL] if index % 2 else None
        ours, theirs = (sides[name].greedy_tokens(messages, tools, _EQUALITY_TOKENS) for name in _SIDES)
        equal += ours == theirs
    return equal


def _speeds(sides: dict[SideName, EngineSide], size: _Size, progress: Callable[[str], None]) -> list[_Rates]:
    """Prefill rates for each of ``_PREFILL_WORDS``, then decode, then batch."""
    prompts = _prompts(seed=3)

    def prefill(side: EngineSide, prompt: str) -> float:
        timed = side.time_one(prompt, 1)
        return timed.prompt_tokens / timed.total_s

    def decode(side: EngineSide, prompt: str) -> float:
        timed = side.time_one(prompt, size.decode_tokens)
        return (timed.new_tokens - 1) / timed.decode_s

    def batch(side: EngineSide, prompt: str) -> float:
        batched = [f"{number} {prompt}" for number in range(_BATCH)]
        return _BATCH * size.batch_tokens / side.time_batch(batched, size.batch_tokens)

    plan = [(f"prefill, {words} words", words, prefill) for words in _PREFILL_WORDS]
    plan += [("decode, one stream", 100, decode), (f"answers, batch of {_BATCH}", 20, batch)]
    speeds: list[_Rates] = []
    for label, words, measure in plan:
        progress(f"  {label}")
        rates: dict[SideName, list[float]] = {name: [] for name in _SIDES}
        for repetition in range(size.repetitions):
            prompt = next(prompts)(words)
            # Whoever goes second finds the machine as the first has left it.
            for name in _SIDES if repetition % 2 else reversed(_SIDES):
                rates[name].append(measure(sides[name], prompt))
        speeds.append(_Rates(label, rates["agentrt"], rates["openvino_genai"]))
    return speeds
