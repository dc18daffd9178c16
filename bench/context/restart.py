"""How soon the first token of a context comes after a restart: restored from disk, and computed again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final

from ..common.report import Table
from ..engines.llama_cpp import LlamaCpp
from ..engines.local import AgentRT
from ..engines.side import EngineProcess, Messages, Request
from .disk import drop_page_cache, read_speed
from .traces import TASKS, TaskTexts

_APP: Final = "notes"
_QUESTION: Final = "Say it again, in fewer words."
_MARGIN: Final = 256
"""Tokens of the template, the question and the answers."""
_SLOT: Final = "slot.bin"


@dataclass(slots=True)
class Restart:
    """What a context of some tokens takes to its first token, in seconds, once for each repetition."""

    tokens: int
    restored_s: list[float] = field(default_factory=list)
    computed_s: list[float] = field(default_factory=list)
    """The same prompt without an app, which finds nothing."""
    llama_cpp_s: list[float] = field(default_factory=list)
    """llama.cpp's, from its restored slot."""
    cached_tokens: list[int] = field(default_factory=list)
    """Tokens of the prompt that were restored."""
    equal_answers: bool = True
    """Whether restored and computed contexts have the same first token."""
    bytes_on_disk: int = 0
    bytes_a_second: float | None = None
    """The speed at which its files are read from the device."""

    def figures(self) -> dict[str, float]:
        """Return how many times as long it takes without the stored context."""
        name = f"restart_ttft_ratio_vs_recompute_{round(self.tokens / 1000)}k"
        return {name: median(self.computed_s) / median(self.restored_s)}

    @property
    def ratio_vs_llama_cpp(self) -> float | None:
        """How many times as long llama.cpp takes to restore its slot; None if it was not measured."""
        return median(self.llama_cpp_s) / median(self.restored_s) if self.llama_cpp_s else None


def measure_restart(
    model: str, tokens: int, texts: TaskTexts, repeats: int, progress: Callable[[str], None]
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
        settings = {"context_folder": folder}
        with EngineProcess(AgentRT, model, settings) as process:
            answered = process.generate(Request(first, 4, app=_APP))
            said = {"role": "assistant", "content": answered.text}
            second = [*first, said, {"role": "user", "content": _QUESTION}]
            prompts = [process.call("prompt_tokens", each) for each in (first, second)]
            process.close()
        for number in range(1, repeats + 1):
            progress(f"restart with {tokens} tokens, {number} of {repeats}")
            _restart(found, model, folder, second, settings)
        found.bytes_on_disk = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        found.bytes_a_second = read_speed(folder)
    if model.endswith(".gguf"):
        progress(f"restart with {tokens} tokens in llama.cpp")
        found.llama_cpp_s = _restart_llama_cpp(model, prompts, repeats)
    return found


def _restart(found: Restart, model: str, folder: Path, prompt: Messages, settings: Mapping[str, Any]) -> None:
    drop_page_cache(folder)
    with EngineProcess(AgentRT, model, settings) as process:
        process.generate(Request("Hello!", 2))  # so that it is warm
        restored = process.generate(Request(prompt, 1, app=_APP))
        computed = process.generate(Request(prompt, 1))  # requests without an app are never stored
        process.close()
    found.cached_tokens.append(restored.cached_tokens)
    found.restored_s.append(restored.first_s)
    found.computed_s.append(computed.first_s)
    found.equal_answers &= restored.token_ids == computed.token_ids


def _restart_llama_cpp(model: str, prompts: Sequence[list[int]], repeats: int) -> list[float]:
    """Return the seconds to restore a slot and to compute the rest of a prompt, as the server counts them.

    ``prompts`` are the one whose slot is saved, and the longer one that is restored.
    """
    first, second = prompts
    seconds = []
    with TemporaryDirectory(ignore_cleanup_errors=True) as name:
        # Nothing is kept beside the slot.
        parameters = {"slot_save_path": f"{name}/", "cache_ram_mib": 0}
        opened = (LlamaCpp, model, len(second) + _MARGIN, 1, parameters)
        with EngineProcess(*opened) as peer:
            _complete(peer, first)
            saved = peer.call("post", "/slots/0?action=save", {"filename": _SLOT})
            if saved["n_saved"] < len(first):
                raise ValueError(f"llama.cpp saved {saved['n_saved']} of {len(first)} tokens")
        for _ in range(repeats):
            drop_page_cache(Path(name))
            with EngineProcess(*opened) as peer:
                _complete(peer, [1, 2, 3])  # so that it is warm
                restored = peer.call("post", "/slots/0?action=restore", {"filename": _SLOT})
                timings = _complete(peer, second)
            if timings["prompt_n"] > len(second) - restored["n_restored"] // 2:
                raise ValueError(
                    f"llama.cpp computed {timings['prompt_n']} tokens of a restored prompt again"
                )
            seconds.append((restored["timings"]["restore_ms"] + timings["prompt_ms"]) / 1e3)
    return seconds


def _complete(peer: EngineProcess, prompt: list[int]) -> Mapping[str, Any]:
    body = {"prompt": prompt, "n_predict": 1, "temperature": 0, "cache_prompt": True, "id_slot": 0}
    timings: Mapping[str, Any] = peer.call("post", "/completion", body)["timings"]
    return timings


def restart_table(restarts: Sequence[Restart]) -> Table:
    """How soon the first token comes after a restart."""
    return Table(
        title="time to the first token after a restart, in s",
        columns=(
            "tokens", "restored", "computed", "llama.cpp restored", "restored tokens", "equal first tokens",
            "MiB on disk", "MiB/s of the disk",
        ),
        rows=tuple(
            (
                each.tokens,
                round(median(each.restored_s), 3),
                round(median(each.computed_s), 3),
                round(median(each.llama_cpp_s), 3) if each.llama_cpp_s else None,
                min(each.cached_tokens),
                each.equal_answers,
                round(each.bytes_on_disk / 2**20, 1),
                None if each.bytes_a_second is None else round(each.bytes_a_second / 2**20),
            )
            for each in restarts
        ),
    )  # fmt: skip
