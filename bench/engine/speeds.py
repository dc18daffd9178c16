"""Speed of the sides of the engine bench, interleaved: prefill, decode, several answers at once."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ..common.bench_model import Prompts
from ..common.estimates import Estimate, median
from ..common.report import Cell
from ..engines.local import OURS
from ..engines.side import EngineProcess, Request

DECODE, PREFILL = "decode, one stream", "prefill"
_FEW_WORDS, _MANY_WORDS = 30, 150


@dataclass(frozen=True, slots=True)
class Work:
    """Workload that is timed."""

    repetitions: int
    prefill_words: int
    decode_words: int
    decode_tokens: int
    batch_words: int
    batch_tokens: int
    batches: tuple[int, ...]
    """Answers at once."""
    slow_repetitions: int
    """Of sides that take several times as long as the others, which answer the first batch only."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Tokens per second of agentrt and of one opponent, one value per repetition.

    The opponent may have fewer repetitions, the first ones.
    """

    what: str
    ours: list[float]
    opponent: str
    theirs: list[float]

    @property
    def ratio(self) -> Estimate:
        """Median over repetitions of our rate divided by theirs; each pair was measured back to back."""
        return median([ours / theirs for ours, theirs in zip(self.ours, self.theirs, strict=False)])

    def row(self) -> tuple[Cell, ...]:
        return (self.what, median(self.ours), self.opponent, median(self.theirs), self.ratio)


def prefill_of(tokens: int) -> str:
    """Return what the prefill of a long prompt is called."""
    return f"prefill of {tokens} tokens"


def decode_behind(tokens: int) -> str:
    """Return what the decode behind a long prompt is called."""
    return f"decode behind {tokens} tokens"


COLUMNS: Final = ("what", "agentrt", "beside", "its", "ratio")


def answers_of(batch: int) -> str:
    """Return what the workload of ``batch`` answers at once is called."""
    return f"answers, batch of {batch}"


def least_ratio(rates: Sequence[Rates], what: str, opponents: str = "") -> Estimate:
    """Ratio of our rate to that of the fastest opponent, of those whose names begin with ``opponents``."""
    found = (each.ratio for each in rates if each.what == what and each.opponent.startswith(opponents))
    return min(found, key=lambda ratio: ratio.value)


def words_for(tokens: int, side: EngineProcess, prompts: Prompts) -> int:
    """Return the number of words of a prompt of about ``tokens`` tokens, chat template included."""
    few, many = (
        side.generate(Request(prompts.take(words), 1)).prompt_tokens for words in (_FEW_WORDS, _MANY_WORDS)
    )
    more = (_MANY_WORDS - _FEW_WORDS) * (tokens - few) / (many - few)
    return max(1, round(_FEW_WORDS + more))


def compare(
    sides: Mapping[str, EngineProcess],
    slow: Collection[str],
    work: Work,
    prompts: Prompts,
    progress: Callable[[str], None],
) -> list[Rates]:
    """Return prefill rates, then decode, then batches; one row per opponent. ``slow`` names slow sides."""

    def prefill(side: EngineProcess, prompt: str) -> float:
        answer = side.generate(Request(prompt, 1))
        return answer.prompt_tokens / answer.total_s

    def decode(side: EngineProcess, prompt: str) -> float:
        answer = side.generate(Request(prompt, work.decode_tokens))
        return (answer.new_tokens - 1) / answer.decode_s

    def answers(batch: int, side: EngineProcess, prompt: str) -> float:
        batched = [Request(f"{number} {prompt}", work.batch_tokens) for number in range(batch)]
        return batch * work.batch_tokens / side.stream(batched).elapsed_s

    fast = [name for name in sides if name not in slow]
    plan = [(PREFILL, work.prefill_words, prefill, [*sides]), (DECODE, work.decode_words, decode, [*sides])]
    plan += [
        (answers_of(batch), work.batch_words, functools.partial(answers, batch), fast if place else [*sides])
        for place, batch in enumerate(work.batches)
    ]
    compared: list[Rates] = []
    for what, words, measure, names in plan:
        progress(f"  {what}")
        rates: dict[str, list[float]] = {name: [] for name in names}
        for repetition in range(work.repetitions):
            prompt = prompts.take(words)
            # Alternate the order: the second side runs on caches and clocks that the first has changed.
            for name in names[:: 1 if repetition % 2 else -1]:
                if name in fast or repetition < work.slow_repetitions:
                    rates[name].append(measure(sides[name], prompt))
        ours = rates.pop(OURS)
        compared += [Rates(what, ours, name, theirs) for name, theirs in rates.items()]
    return compared


def compare_long(
    sides: Mapping[str, EngineProcess],
    words: Mapping[int, int],
    work: Work,
    prompts: Prompts,
    progress: Callable[[str], None],
) -> list[Rates]:
    """Return the rates of prefill, and of the decode behind it, for each of these lengths of prompts.

    ``words`` is how many words such a prompt has, by its tokens.
    """
    compared: list[Rates] = []
    for tokens, count in words.items():
        progress(f"  prompts of {tokens} tokens")
        rates: dict[str, dict[str, list[float]]] = {
            what: {name: [] for name in sides} for what in (prefill_of(tokens), decode_behind(tokens))
        }
        for repetition in range(work.slow_repetitions):
            request = Request(prompts.take(count), work.decode_tokens)
            for name in [*sides][:: 1 if repetition % 2 else -1]:
                answer = sides[name].generate(request)
                prefill_s = answer.total_s - answer.decode_s
                rates[prefill_of(tokens)][name].append(answer.prompt_tokens / prefill_s)
                rates[decode_behind(tokens)][name].append((answer.new_tokens - 1) / answer.decode_s)
        for what, measured in rates.items():
            ours = measured.pop(OURS)
            compared += [Rates(what, ours, name, theirs) for name, theirs in measured.items()]
    return compared
