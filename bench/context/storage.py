"""What contexts cost requests: storing them (LLMS, Fig. 15a), and measuring their density (Eq. 1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from ..common.estimates import Estimate, median
from ..engines.local import AgentRT
from ..engines.side import EngineProcess, Request
from .accuracy import RATIO
from .traces import TASKS, TaskTexts

_ANSWER_TOKENS: Final = 24
_BATCH: Final = 3
"""Requests one after the other, so that what one has computed is stored while the next is served."""


def measure_slowdown(
    model: str, tokens: int, repeats: int, texts: TaskTexts, progress: Callable[[str], None]
) -> Estimate:
    """Return by how many percent requests take longer where contexts are stored in a folder.

    Batches of new prompts of ``tokens`` tokens are served by turns with and without.
    """
    numbers = count()

    def serve(side: EngineProcess) -> float:
        seconds = 0.0
        for number in (next(numbers) for _ in range(_BATCH)):
            text = f"{number}. {texts.take(TASKS[3], tokens)}"
            seconds += side.generate(Request(text, _ANSWER_TOKENS, app=f"app {number}")).total_s
        return seconds

    progress("requests with and without stored contexts")
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        return _percent_slower(model, {"context_folder": Path(folder)}, {}, serve, repeats)


def measure_density_overhead(
    model: str, tokens: int, repeats: int, texts: TaskTexts, progress: Callable[[str], None]
) -> Estimate:
    """Return by how many percent prompts of ``tokens`` tokens take longer to their first token.

    New prompts are computed by turns with contexts that are compressed by density, and with contexts that are
    stored as they are. Nothing is stored meanwhile.
    """
    numbers = count()

    def first_token(side: EngineProcess) -> float:
        text = f"{next(numbers)}. {texts.take(TASKS[1], tokens)}"
        return side.generate(Request(text, 1, app="notes")).first_s

    progress("prefill with and without density")
    with TemporaryDirectory(ignore_cleanup_errors=True) as name:
        plain = {"context_folder": Path(name, "plain")}
        compressed = {"context_folder": Path(name, "compressed"), "context_compression": RATIO}
        return _percent_slower(model, compressed, plain, first_token, repeats)


def _percent_slower(
    model: str,
    changed: Mapping[str, Any],
    plain: Mapping[str, Any],
    measure: Callable[[EngineProcess], float],
    repeats: int,
) -> Estimate:
    """Return how much longer it takes with the ``changed`` settings; the first times warm up.

    The sides go first by turns.
    """
    seconds: dict[EngineProcess, list[float]] = {}
    with EngineProcess(AgentRT, model, changed) as slower, EngineProcess(AgentRT, model, plain) as other:
        for number in range(repeats + 1):
            for side in (slower, other) if number % 2 else (other, slower):
                seconds.setdefault(side, []).append(measure(side))
                side.call("wait_until_stored")
    return percent_slower(seconds[slower][1:], seconds[other][1:])


def percent_slower(seconds: Sequence[float], plain_s: Sequence[float]) -> Estimate:
    """Return by how many percent ``seconds`` is above ``plain_s`` of the same repetition, the median."""
    return median([100 * (one / plain - 1) for one, plain in zip(seconds, plain_s, strict=True)])
