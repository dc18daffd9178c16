"""How soon the first token of a context comes after a restart: restored from disk, and computed again."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from ..common.estimates import Estimate, median
from ..common.report import Cell, Table
from ..engines.llama_cpp import LLAMA_CPP as WHEEL
from ..engines.llama_cpp import llama_cpp_builds
from ..engines.local import AgentRT
from ..engines.side import EngineProcess, Messages, Request
from .disk import drop_page_cache, read_speed
from .traces import TASKS, TaskTexts

RESTORED: Final = "restored"
COMPUTED: Final = "computed"
LLAMA_CPP: Final = "llama.cpp restored"
LLAMA_CPP_8_BITS: Final = "llama.cpp restored, 8 bits"
"""With a KV cache of as many bits as ours; by default it has 16."""
_PEERS: Final = (LLAMA_CPP, LLAMA_CPP_8_BITS)
_APP: Final = "notes"
_QUESTION: Final = "Say it again, in fewer words."
_MARGIN: Final = 256
"""Tokens of the template, the question and the answers."""
_SLOT: Final = "slot.bin"


@dataclass(frozen=True, slots=True)
class FirstToken:
    """What one way took to its first token in one repetition, in seconds."""

    request: float
    """From the request, the first one of its process."""
    process: float
    """From the start of the process."""


@dataclass(slots=True)
class Restart:
    """What a context of some tokens takes to its first token."""

    tokens: int
    times: dict[str, list[FirstToken]] = field(default_factory=dict)
    """By way, once for each repetition."""
    cached_tokens: list[int] = field(default_factory=list)
    """Tokens of the prompt that were restored."""
    equal_answers: bool = True
    """Whether restored and computed contexts have the same first token."""
    bytes_on_disk: int = 0
    bytes_a_second: float | None = None
    """The speed at which its files are read from the device."""

    def ratio(self, way: str, *, from_start: bool = False) -> Estimate | None:
        """Return how many times as long as ours ``way`` takes; None if it was not measured."""
        if way not in self.times:
            return None
        both = zip(self.times[way], self.times[RESTORED], strict=True)
        return median(
            [
                theirs.process / ours.process if from_start else theirs.request / ours.request
                for theirs, ours in both
            ]
        )


def restart_figures(restarts: Collection[Restart]) -> dict[str, Estimate]:
    """Return the ratios to computing by length, and to llama.cpp the least of all lengths and precisions."""
    found: dict[str, Estimate] = {}
    for suffix, from_start in (("", False), ("_from_process_start", True)):
        for each in restarts:
            if (ratio := each.ratio(COMPUTED, from_start=from_start)) is not None:
                name = f"restart_ttft_ratio_vs_recompute_{round(each.tokens / 1000)}k{suffix}"
                found[name] = ratio
        ratios = [each.ratio(way, from_start=from_start) for each in restarts for way in _PEERS]
        if known := [ratio for ratio in ratios if ratio is not None]:
            least = min(known, key=lambda ratio: ratio.value)
            found[f"restart_ttft_ratio_vs_llama_cpp_restore{suffix}"] = least
    return found


def measure_restart(
    model: str, tokens: int, texts: TaskTexts, repeats: int, progress: Callable[[str], None]
) -> Restart:
    """Store a context of about ``tokens`` tokens, and go on with it in new processes, ``repeats`` times.

    Nothing of its files is in memory then. Without an app the same prompt is computed anew. A GGUF file is
    measured in llama.cpp by turns, too.
    """
    progress(f"restart with a context of {tokens} tokens")
    found = Restart(tokens)
    first = [{"role": "user", "content": texts.take(TASKS[1], tokens)}]
    with TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name, "ours")
        settings = {"context_folder": folder}
        with EngineProcess(AgentRT, model, settings) as process:
            answered = process.generate(Request(first, 4, app=_APP))
            said = {"role": "assistant", "content": answered.text}
            second = [*first, said, {"role": "user", "content": _QUESTION}]
            prompts = [process.call("prompt_tokens", each) for each in (first, second)]
            process.close()
        peers: list[_LlamaCppSlot] = []
        for place, way in enumerate(_PEERS if model.endswith(".gguf") else ()):
            progress(f"{way}: its slot of {tokens} tokens")
            peers.append(_LlamaCppSlot(way, model, Path(name, f"slot {place}"), prompts))
        for number in range(1, repeats + 1):
            progress(f"restart with {tokens} tokens, {number} of {repeats}")
            _restart(found, model, folder, second, settings)
            for peer in peers:
                found.times.setdefault(peer.way, []).append(peer.restart())
        found.bytes_on_disk = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        found.bytes_a_second = read_speed(folder)
    return found


def _restart(found: Restart, model: str, folder: Path, prompt: Messages, settings: Mapping[str, Any]) -> None:
    drop_page_cache(folder)
    with _started(AgentRT, model, settings) as (process, opened_s):
        restored = process.generate(Request(prompt, 1, app=_APP))
        computed = process.generate(Request(prompt, 1))  # requests without an app are never stored
        process.close()
    for way, answer in ((RESTORED, restored), (COMPUTED, computed)):
        taken = FirstToken(answer.first_s, opened_s + answer.first_s)
        found.times.setdefault(way, []).append(taken)
    found.cached_tokens.append(restored.cached_tokens)
    found.equal_answers &= restored.token_ids == computed.token_ids


@contextmanager
def _started(*opened: Any) -> Iterator[tuple[EngineProcess, float]]:
    """Start a process that opens a side; yield it and the seconds that took."""
    begun = time.perf_counter()
    with EngineProcess(*opened) as process:
        yield process, time.perf_counter() - begun


class _LlamaCppSlot:
    """A slot of llama.cpp's server that was saved with the first of two prompts, for the second one."""

    def __init__(self, way: str, model: str, folder: Path, prompts: Sequence[list[int]]) -> None:
        """Compute and save it in a new folder."""
        self.way = way
        self._folder = folder
        first, self._prompt = prompts
        folder.mkdir()
        build, make = list(llama_cpp_builds().items())[-1]  # that for this processor if there is one
        # Nothing is kept beside the slot.
        parameters: dict[str, Any] = {"slot_save_path": f"{folder}/", "cache_ram_mib": 0}
        if way == LLAMA_CPP_8_BITS:
            q8_0 = 8 if build == WHEEL else "q8_0"  # a value of ggml_type, or its name
            parameters |= {"cache_type_k": q8_0, "cache_type_v": q8_0}
        self._opened = (make, model, len(self._prompt) + _MARGIN, 1, parameters)
        with EngineProcess(*self._opened) as peer:
            _complete(peer, first)
            saved = peer.call("post", "/slots/0?action=save", {"filename": _SLOT})
        if saved["n_saved"] < len(first):
            raise ValueError(f"llama.cpp saved {saved['n_saved']} of {len(first)} tokens")

    def restart(self) -> FirstToken:
        """Restore the slot in a new process and compute the rest of the prompt, as the server counts that."""
        drop_page_cache(self._folder)
        with _started(*self._opened) as (peer, opened_s):
            restored = peer.call("post", "/slots/0?action=restore", {"filename": _SLOT})
            timings = _complete(peer, self._prompt)
        if timings["prompt_n"] > len(self._prompt) - restored["n_restored"] // 2:
            raise ValueError(f"llama.cpp computed {timings['prompt_n']} tokens of a restored prompt again")
        seconds = (restored["timings"]["restore_ms"] + timings["prompt_ms"]) / 1e3
        return FirstToken(seconds, opened_s + seconds)


def _complete(peer: EngineProcess, prompt: list[int]) -> Mapping[str, Any]:
    body = {"prompt": prompt, "n_predict": 1, "temperature": 0, "cache_prompt": True, "id_slot": 0}
    timings: Mapping[str, Any] = peer.call("post", "/completion", body)["timings"]
    return timings


def restart_table(restarts: Sequence[Restart]) -> Table:
    """How soon the first token comes after a restart, from the request and from the start of the process."""
    ways = (RESTORED, COMPUTED, *_PEERS)

    def row(each: Restart, *, from_start: bool) -> tuple[Cell, ...]:
        seconds = (
            [found.process if from_start else found.request for found in each.times.get(way, ())]
            for way in ways
        )
        return (
            each.tokens,
            "process" if from_start else "request",
            *(median(of_way) if of_way else None for of_way in seconds),
            min(each.cached_tokens),
            each.equal_answers,
            round(each.bytes_on_disk / 2**20, 1),
            None if each.bytes_a_second is None else round(each.bytes_a_second / 2**20),
        )

    return Table(
        title="time to the first token after a restart, in s",
        columns=(
            *("tokens", "from", *ways),
            *("restored tokens", "equal first tokens", "MiB on disk", "MiB/s of the disk"),
        ),
        rows=tuple(row(each, from_start=start) for each in restarts for start in (False, True)),
    )
