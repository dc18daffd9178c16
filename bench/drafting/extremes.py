"""Where drafts can only cost: text in which nothing matches, and full batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from ..common.prompts import RandomWords
from .answering import AnsweringRuntime
from .prompt_sets import Prompt
from .sides import OURS, VANILLA, Ours, Vanilla

BATCH: Final = 8
_WORDS: Final = 64
_TEMPERATURE: Final = 2.0
"""So high that the answer is tokens drawn almost evenly, of which no two are likely to follow twice."""


def no_match_slowdowns(
    runtime: AnsweringRuntime, repetitions: int, tokens: int, progress: Callable[[str], None]
) -> list[float]:
    """Return by how many percent drafting slows the answer of each repetition, whose text never repeats."""
    prompts, found = RandomWords(0), []
    for seed in range(repetitions):
        progress(f"text in which nothing matches, repetition {seed + 1} of {repetitions}")
        prompt = Prompt(({"role": "user", "content": prompts.take(_WORDS)},))
        runtime.prefill(prompt)
        milliseconds = {}
        for side in (Vanilla(), Ours()) if seed % 2 else (Ours(), Vanilla()):
            answer = runtime.answer(
                side, prompt, tokens, temperature=_TEMPERATURE, seed=seed, ignore_eos=True
            )
            milliseconds[side.name] = answer.decode_s / answer.decoded
        found.append(100.0 * (milliseconds[OURS] / milliseconds[VANILLA] - 1.0))
    return found


def batch_ratios(
    runtime: AnsweringRuntime,
    prompts: Sequence[Prompt],
    repetitions: int,
    tokens: int,
    progress: Callable[[str], None],
) -> list[float]:
    """Return how many times as many tokens a second a batch of prompts makes with drafts, by repetition.

    The prompts are in the prefix cache, so that almost all of the time is decoding.
    """
    found = []
    for prompt in prompts:
        runtime.prefill(prompt)
    for repetition in range(repetitions):
        progress(f"batches of {len(prompts)}, repetition {repetition + 1} of {repetitions}")
        speeds = {}
        for side in (Vanilla(), Ours()) if repetition % 2 else (Ours(), Vanilla()):
            seconds, made = runtime.answer_all(side, prompts, tokens)
            speeds[side.name] = made / seconds
        found.append(speeds[OURS] / speeds[VANILLA])
    return found
