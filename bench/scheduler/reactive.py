"""A short question beside a long background prefill, and beside background answers, on each engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ..common.estimates import Estimate, median
from ..common.report import Cell, Table
from ..engines.llama_cpp import LLAMA_CPP, LLAMA_CPP_NATIVE
from ..engines.local import OURS
from ..engines.side import Answer
from .engines import GENAI_DEFAULT, Arrival, Engine

PREFILL_TOKENS: Final = 2048
_PROMPT_SHARE: Final = 0.8
"""Of a model's context, for the prefill: an answer follows."""
QUESTION_TOKENS: Final = 32
_ANSWER_TOKENS: Final = 20
ANSWERS: Final = 8
"""Background answers at once."""
_ANSWERED_PROMPT_TOKENS: Final = 48
_ANSWERED_TOKENS: Final = 60
"""Of each of them: they have not ended when the question's answer has."""
_BEGUN_S: Final = 0.05
"""After which a prefill has just begun. Each repetition waits a little longer, so that questions find the
kernel that runs in all of its stages."""
_QUANTUM_S: Final = 0.025
_BEGUN_SHARE: Final = 1.2
"""Of the time in which all :data:`ANSWERS` have a first token: then a question comes."""


@dataclass(frozen=True, slots=True)
class Answered:
    """One repetition on one engine: the question alone, beside the prefill, and beside the answers."""

    alone: Answer
    beside_prefill: Answer
    beside_answers: Answer


def measure_reactive(
    engines: Mapping[str, Engine],
    context_length: int,
    repetitions: int,
    slow_repetitions: int,
    progress: Callable[[str], None],
) -> tuple[dict[str, Estimate], Table]:
    """Return the figures, and the table of all ``engines`` by name, of which one is :data:`OURS`.

    llama.cpp's builds, several times as slow, take part in the first ``slow_repetitions`` only.
    """
    prefill_tokens = min(PREFILL_TOKENS, int(_PROMPT_SHARE * context_length))
    # The second time, when the engine is warm.
    begin = {name: [_first_tokens_s(engine) for _ in range(2)][1] for name, engine in engines.items()}
    found: dict[str, list[Answered]] = {name: [] for name in engines}
    prefill = [Arrival(0.0, prefill_tokens, 1, False)]
    answers = [Arrival(0.0, _ANSWERED_PROMPT_TOKENS, _ANSWERED_TOKENS, False)] * ANSWERS
    for repetition in range(repetitions):
        for name in list(engines)[:: 1 if repetition % 2 == 0 else -1]:
            if name in (LLAMA_CPP, LLAMA_CPP_NATIVE) and repetition >= slow_repetitions:
                continue
            progress(f"{name}: a question beside a prefill and beside answers, {repetition + 1}")
            at_s, engine = _BEGUN_S + _QUANTUM_S * repetition / repetitions, engines[name]
            schedules: tuple[tuple[list[Arrival], float], ...] = (
                ([], 0.0),
                (prefill, at_s),
                (answers, begin[name]),
            )
            found[name].append(Answered(*(_ask(engine, beside, at) for beside, at in schedules)))
    return reactive_figures(found), reactive_table(found, prefill_tokens)


def _ask(engine: Engine, background: Sequence[Arrival], at_s: float) -> Answer:
    """Ask the question beside the background."""
    question = Arrival(at_s, QUESTION_TOKENS, _ANSWER_TOKENS, True)
    return engine.serve([*background, question])[-1]


def _first_tokens_s(engine: Engine) -> float:
    """Return the time in which the background answers have begun."""
    begun = engine.serve([Arrival(0.0, _ANSWERED_PROMPT_TOKENS, 2, False)] * ANSWERS)
    return _BEGUN_SHARE * max(each.total_s for each in begun)


def reactive_figures(found: Mapping[str, Sequence[Answered]]) -> dict[str, Estimate]:
    """Return the figures: medians over the repetitions of the ratios within one.

    Of llama.cpp's builds it is the faster one.
    """
    ours = found[OURS]
    ratios = {
        name: median(
            [
                their.beside_prefill.first_s / our.beside_prefill.first_s
                for our, their in zip(ours, theirs, strict=False)
            ]
        )
        for name, theirs in found.items()
        if name not in (OURS, GENAI_DEFAULT)
    }
    if (native := ratios.pop(LLAMA_CPP_NATIVE, None)) is not None:
        ratios[LLAMA_CPP] = min(ratios[LLAMA_CPP], native, key=lambda ratio: ratio.value)
    figures = {f"reactive_ttft_beside_prefill_ratio_vs_{name}": ratio for name, ratio in ratios.items()}
    figures["reactive_ttft_over_alone"] = median(
        [each.beside_prefill.first_s / each.alone.first_s for each in ours]
    )
    figures[f"reactive_ms_per_token_beside_{ANSWERS}_ratio"] = median(
        [each.beside_answers.token_s / each.alone.token_s for each in ours]
    )
    return figures


def reactive_table(found: Mapping[str, Sequence[Answered]], prefill_tokens: int) -> Table:
    """Return times to the first token and of one token, in milliseconds."""
    rows: list[tuple[Cell, ...]] = []
    for name, repetitions in found.items():
        times = (
            [each.alone.first_s for each in repetitions],
            [each.beside_prefill.first_s for each in repetitions],
            [each.alone.token_s for each in repetitions],
            [each.beside_answers.token_s for each in repetitions],
        )
        cells = (median([1e3 * each for each in seconds]) for seconds in times)
        rows.append((name, repetitions[0].alone.prompt_tokens, *cells))
    return Table(
        title=f"a short question beside a prefill of {prefill_tokens} tokens, and beside {ANSWERS} answers",
        columns=(
            *("engine", "prompt tokens", "TTFT ms alone", "beside the prefill", "ms a token alone"),
            f"beside {ANSWERS}",
        ),
        rows=tuple(rows),
    )
