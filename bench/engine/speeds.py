"""Speed of the sides of the engine bench, interleaved: prefill, decode, several answers at once."""

from __future__ import annotations

import functools
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ..common.bench_model import Prompts
from ..common.report import Cell
from ..engines.local import OURS
from ..engines.side import EngineProcess, Request

DECODE: Final = "decode, one stream"
_FEW_WORDS, _MANY_WORDS = 30, 150


@dataclass(frozen=True, slots=True)
class Work:
    """Workload that is timed."""

    repetitions: int
    prefills: Mapping[str, int]
    """What a prompt is called, and its words."""
    decode_words: int
    decode_tokens: int
    batch_words: int
    batch_tokens: int
    batches: tuple[int, ...]
    """Answers at once."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Tokens per second of agentrt and of one opponent, one value per repetition."""

    what: str
    ours: list[float]
    opponent: str
    theirs: list[float]

    @property
    def ratio(self) -> float:
        """Median over repetitions of our rate divided by theirs; each pair was measured back to back."""
        return statistics.median(ours / theirs for ours, theirs in zip(self.ours, self.theirs, strict=True))

    def row(self) -> tuple[Cell, ...]:
        ours, theirs = statistics.median(self.ours), statistics.median(self.theirs)
        return (self.what, round(ours, 1), self.opponent, round(theirs, 1), round(self.ratio, 3))


COLUMNS: Final = ("what", "agentrt", "beside", "its", "ratio")


def answers_of(batch: int) -> str:
    """Return what the workload of ``batch`` answers at once is called."""
    return f"answers, batch of {batch}"


def least_ratio(rates: Sequence[Rates], what: str, opponents: str = "") -> float:
    """Ratio of our rate to that of the fastest opponent, of those whose names begin with ``opponents``."""
    return min(each.ratio for each in rates if each.what == what and each.opponent.startswith(opponents))


def words_for(tokens: int, side: EngineProcess, prompts: Prompts) -> int:
    """Return the number of words of a prompt of about ``tokens`` tokens, chat template included."""
    few, many = (
        side.generate(Request(prompts.take(words), 1)).prompt_tokens for words in (_FEW_WORDS, _MANY_WORDS)
    )
    more = (_MANY_WORDS - _FEW_WORDS) * (tokens - few) / (many - few)
    return max(1, round(_FEW_WORDS + more))


def compare(
    sides: Mapping[str, EngineProcess], work: Work, prompts: Prompts, progress: Callable[[str], None]
) -> list[Rates]:
    """Return prefill rates in the order of the work, then decode, then batches; one row per opponent."""

    def prefill(side: EngineProcess, prompt: str) -> float:
        answer = side.generate(Request(prompt, 1))
        return answer.prompt_tokens / answer.total_s

    def decode(side: EngineProcess, prompt: str) -> float:
        answer = side.generate(Request(prompt, work.decode_tokens))
        return (answer.new_tokens - 1) / answer.decode_s

    def answers(batch: int, side: EngineProcess, prompt: str) -> float:
        batched = [Request(f"{number} {prompt}", work.batch_tokens) for number in range(batch)]
        return batch * work.batch_tokens / side.stream(batched).elapsed_s

    plan = [(what, words, prefill) for what, words in work.prefills.items()]
    plan.append((DECODE, work.decode_words, decode))
    plan += [
        (answers_of(batch), work.batch_words, functools.partial(answers, batch)) for batch in work.batches
    ]
    compared: list[Rates] = []
    for what, words, measure in plan:
        progress(f"  {what}")
        rates: dict[str, list[float]] = {name: [] for name in sides}
        for repetition in range(work.repetitions):
            prompt = prompts.take(words)
            # Alternate the order: the second side runs on caches and clocks that the first has changed.
            for name in list(sides)[:: 1 if repetition % 2 else -1]:
                rates[name].append(measure(sides[name], prompt))
        ours = rates.pop(OURS)
        compared += [Rates(what, ours, name, theirs) for name, theirs in rates.items()]
    return compared
