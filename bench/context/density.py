"""What measuring the information density costs prefill (LLMS, Eq. 1)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from .accuracy import RATIO
from .runtime_process import RuntimeProcess
from .texts import TaskTexts
from .traces import TASKS


def measure_density_overhead(
    model: str, tokens: int, repeats: int, texts: TaskTexts, progress: Callable[[str], None]
) -> float:
    """Return by how many percent prompts of ``tokens`` tokens take longer to their first token.

    New prompts are computed by turns with contexts that are stored as they are, and with contexts that are
    compressed by density; the medians are compared, without the first ones, which warm up. Nothing is stored
    meanwhile.
    """
    plain_s, measured_s = list[float](), list[float]()
    numbers = count()
    with (
        TemporaryDirectory(ignore_cleanup_errors=True) as plain_folder,
        TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        RuntimeProcess(model, context_folder=Path(plain_folder)) as plain,
        RuntimeProcess(model, context_folder=Path(folder), context_compression=RATIO) as measured,
    ):
        for number in range(repeats + 1):
            progress(f"prefill with and without density, {number} of {repeats}")
            for side, into in ((plain, plain_s), (measured, measured_s)):
                text = f"{next(numbers)}. {texts.take(TASKS[1], tokens)}"
                into.append(side.answer([{"role": "user", "content": text}], app="notes").ttft_s)
                side.wait_until_stored()
    return 100 * (median(measured_s[1:]) / median(plain_s[1:]) - 1)
