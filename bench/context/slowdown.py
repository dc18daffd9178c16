"""What storing contexts costs the requests that are served meanwhile (LLMS, Fig. 15a)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

from .runtime_process import RuntimeProcess
from .texts import TaskTexts
from .traces import TASKS

_ANSWER_TOKENS: Final = 24
_BATCH: Final = 3
"""Requests one after the other, so that what one has computed is stored while the next is served."""


@dataclass(frozen=True, slots=True)
class Slowdown:
    """Seconds of a batch of requests, once for each repetition."""

    with_contexts_s: tuple[float, ...]
    without_s: tuple[float, ...]

    @property
    def percent(self) -> float:
        """How much longer the requests take where contexts are stored, in percent of the medians."""
        return 100 * (median(self.with_contexts_s) / median(self.without_s) - 1)


def measure_slowdown(
    model: str, tokens: int, repeats: int, texts: TaskTexts, progress: Callable[[str], None]
) -> Slowdown:
    """Serve batches of new prompts of ``tokens`` tokens by turns with contexts in a folder and without.

    The first batches warm up and do not count.
    """
    seconds: tuple[list[float], list[float]] = ([], [])
    numbers = count()
    with (
        TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        RuntimeProcess(model, context_folder=Path(folder)) as storing,
        RuntimeProcess(model) as plain,
    ):
        for number in range(repeats + 1):
            progress(f"requests with and without stored contexts, {number} of {repeats}")
            for side, into in ((storing, seconds[0]), (plain, seconds[1])):
                into.append(sum(_serve(side, tokens, texts, next(numbers)) for _ in range(_BATCH)))
                side.wait_until_stored()
    return Slowdown(tuple(seconds[0][1:]), tuple(seconds[1][1:]))


def _serve(side: RuntimeProcess, tokens: int, texts: TaskTexts, number: int) -> float:
    prompt = [{"role": "user", "content": f"{number}. {texts.take(TASKS[3], tokens)}"}]
    return side.answer(prompt, app=f"app {number}", max_tokens=_ANSWER_TOKENS).total_s
