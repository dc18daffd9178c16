"""How soon the first token of a context comes after a restart: restored from disk, and computed again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final

from ..common.machine import Machine
from .disk import drop_page_cache, read_speed
from .llama_cpp import LlamaCppSlots
from .runtime_process import FirstToken, Messages, RuntimeProcess
from .texts import TaskTexts
from .traces import TASKS

_APP: Final = "notes"
_QUESTION: Final = "Say it again, in fewer words."
_MARGIN: Final = 256
"""Tokens of the template, the question and the answers."""


@dataclass(slots=True)
class Restart:
    """What a context of some tokens takes to its first token, in seconds, once for each repetition."""

    tokens: int
    restored_s: list[float] = field(default_factory=list)
    computed_s: list[float] = field(default_factory=list)
    """The same prompt without an app, which finds nothing."""
    llama_cpp_s: list[float] = field(default_factory=list)
    """llama.cpp's, from its restored slot."""
    cached_tokens: int = 0
    """Tokens of the prompt that were restored, the fewest of all repetitions."""
    equal_answers: bool = True
    """Whether restored and computed contexts have the same first token."""
    bytes_on_disk: int = 0
    bytes_a_second: float | None = None
    """The speed at which its files are read from the device."""

    @property
    def name(self) -> str:
        """The tokens in the names of figures: ``8k``."""
        return f"{round(self.tokens / 1000)}k"

    @property
    def ratio_vs_recompute(self) -> float:
        """How many times as long it takes without the stored context."""
        return median(self.computed_s) / median(self.restored_s)

    @property
    def ratio_vs_llama_cpp(self) -> float | None:
        """How many times as long llama.cpp takes to restore its slot; None if it was not measured."""
        return median(self.llama_cpp_s) / median(self.restored_s) if self.llama_cpp_s else None


def measure_restart(
    model: str,
    tokens: int,
    texts: TaskTexts,
    repeats: int,
    machine: Machine,
    settings: Mapping[str, Any],
    progress: Callable[[str], None],
) -> Restart:
    """Store a context of about ``tokens`` tokens, and go on with it in new processes, ``repeats`` times.

    Nothing of its files is in memory then. Without an app the same prompt is computed anew. A GGUF file is
    measured in llama.cpp, too.
    """
    progress(f"restart with a context of {tokens} tokens")
    found = Restart(tokens)
    first = [{"role": "user", "content": texts.take(TASKS[1], tokens)}]
    with TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        settings = {**settings, "context_folder": folder}
        with RuntimeProcess(model, **settings) as process:
            answered = process.answer(first, app=_APP, max_tokens=4)
            answer = {"role": "assistant", "content": answered.text}
            second = [*first, answer, {"role": "user", "content": _QUESTION}]
            prompts = [process.prompt_tokens(each) for each in (first, second)]
            process.close_runtime()
        for number in range(1, repeats + 1):
            progress(f"restart with {tokens} tokens, {number} of {repeats}")
            _restart(found, model, folder, second, settings)
        found.bytes_on_disk = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        found.bytes_a_second = read_speed(folder)
    if model.endswith(".gguf"):
        _restart_llama_cpp(found, model, prompts, repeats, machine, progress)
    return found


def _restart(found: Restart, model: str, folder: Path, prompt: Messages, settings: Mapping[str, Any]) -> None:
    drop_page_cache(folder)
    with RuntimeProcess(model, **settings) as process:
        restored: FirstToken = process.answer(prompt, app=_APP)
        computed: FirstToken = process.answer(prompt, app="")  # requests without an app are never stored
        process.close_runtime()
    cached = restored.cached_tokens
    found.cached_tokens = min(found.cached_tokens, cached) if found.restored_s else cached
    found.restored_s.append(restored.ttft_s)
    found.computed_s.append(computed.ttft_s)
    found.equal_answers &= restored.token_ids == computed.token_ids


def _restart_llama_cpp(
    found: Restart,
    model: str,
    prompts: Sequence[Sequence[int]],
    repeats: int,
    machine: Machine,
    progress: Callable[[str], None],
) -> None:
    first, second = prompts
    context = len(second) + _MARGIN
    with TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        progress(f"restart with {found.tokens} tokens in llama.cpp")
        with LlamaCppSlots(model, machine.usable_cores, context, folder) as peer:
            peer.save(first)
        for _ in range(repeats):
            drop_page_cache(folder)
            with LlamaCppSlots(model, machine.usable_cores, context, folder) as peer:
                found.llama_cpp_s.append(peer.restore(second))
