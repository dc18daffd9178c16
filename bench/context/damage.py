"""What comes back of contexts whose chunks were lost or damaged: keys, values and answers (LLMS §3.3)."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np

from agentrt.errors import ChunkDamagedError
from agentrt.runtime.kv.store.chunk_files import Chunk, ChunkLocation
from agentrt.runtime.kv.store.store import ContextStore

from ..common.served_runtime import EXACT
from ..engines.local import wait_until_stored
from .open_runtime import Content, cached_content, forget_cached, open_loading
from .sweeps import Progress
from .texts import TaskTexts
from .traces import TASKS

_APP: Final = "notes"
_ANSWER_TOKENS: Final = 4
_CHUNKS: Final = ".chunks"
_DATABASE: Final = "contexts.sqlite"


@dataclass(frozen=True, slots=True)
class Poisoned:
    """The completions after one kind of damage."""

    damage: str
    completions: int
    equal: int
    """Those with the tokens of a process that has no stored contexts."""
    refused_files: int
    damaged_chunks: int


def measure_poison(
    model: str, tokens: int, completions: int, texts: TaskTexts, progress: Progress
) -> list[Poisoned]:
    """Damage stored contexts in several ways; compare the next answers with those without any context.

    The first of ``completions`` answers continues the context whose files are damaged, of about ``tokens``
    tokens. The others are of the same app, and some of them begin like it.
    """
    text = texts.take(TASKS[1], tokens)
    first = [{"role": "user", "content": text}]
    prompts = [first, *_others(text, completions - 1)]
    found = []
    with TemporaryDirectory(ignore_cleanup_errors=True) as name:
        kept, used = Path(name, "kept"), Path(name, "used")
        progress("answers without stored contexts")
        with open_loading(model, None, **EXACT) as runtime:
            expected = [_answer(runtime, prompt) for prompt in prompts]
        with open_loading(model, kept, **EXACT) as runtime:
            _answer(runtime, first)
        for damage, change in DAMAGES.items():
            progress(f"answers after damage: {damage}")
            shutil.rmtree(used, ignore_errors=True)
            shutil.copytree(kept, used)
            change(used)
            with open_loading(model, used, **EXACT) as runtime:
                equal = sum(
                    _answer(runtime, prompt) == tokens
                    for prompt, tokens in zip(prompts, expected, strict=True)
                )
                store = runtime._kept.store
                assert store is not None
                statistics = store.statistics()
            found.append(
                Poisoned(damage, len(prompts), equal, statistics.refused_files, statistics.damaged_chunks)
            )
    return found


def _others(text: str, count: int) -> list[list[dict[str, str]]]:
    """Return short prompts of the same app, every second of which begins like the context."""
    words = text.split()
    begins = (words[:16], words[-16:])
    return [
        [{"role": "user", "content": f"{' '.join(begins[number % 2])} {number}?"}] for number in range(count)
    ]


def _answer(runtime: Any, prompt: Sequence[dict[str, str]]) -> tuple[int, ...]:
    made = runtime.generate(prompt, app=_APP, max_tokens=_ANSWER_TOKENS, temperature=0, ignore_eos=True)
    tokens: tuple[int, ...] = made.token_ids
    return tokens


def _largest(folder: Path, suffix: str) -> Path:
    return max(folder.rglob(f"*{suffix}"), key=lambda path: path.stat().st_size)


def _flip(suffix: str, place: float) -> Callable[[Path], None]:
    """Return what flips a bit at a share of the file's length."""

    def flip(folder: Path) -> None:
        path = _largest(folder, suffix)
        content = bytearray(path.read_bytes())
        content[min(int(place * len(content)), len(content) - 1)] ^= 1
        path.write_bytes(content)

    return flip


def _cut(folder: Path) -> None:
    path = _largest(folder, _CHUNKS)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _foreign(folder: Path) -> None:
    _largest(folder, _CHUNKS).write_bytes(b"GGUF" + bytes(4096))


def _swapped(folder: Path) -> None:
    """Give the chunks the name of a file that does not exist, as a copied file would have."""
    path = _largest(folder, _CHUNKS)
    path.rename(path.with_name("0" * len(path.stem) + path.suffix))


DAMAGES: Final[dict[str, Callable[[Path], None]]] = {
    "a bit in the middle of the chunks": _flip(_CHUNKS, 0.5),
    "a bit at the begin of the chunks": _flip(_CHUNKS, 0.0),
    "a bit at the end of the chunks": _flip(_CHUNKS, 1.0),
    "chunks cut in half": _cut,
    "chunks of another program": _foreign,
    "chunks under another name": _swapped,
    "a bit at the begin of the database": _flip(_DATABASE, 0.0),
    "a bit in the middle of the database": _flip(_DATABASE, 0.5),
    "a bit at the end of the database": _flip(_DATABASE, 1.0),
}


@dataclass(frozen=True, slots=True)
class Recomputed:
    """A context of which every second chunk was computed again, between those that were loaded."""

    blocks: int
    recomputed: int
    loaded: int
    max_abs_diff: float | None
    """The largest difference of a key or a value from what it was before; None if some are gone."""

    def figures(self) -> dict[str, float]:
        """Return the figure; none if some keys and values are gone."""
        return {} if self.max_abs_diff is None else {"recompute_max_abs_diff": self.max_abs_diff}


def measure_recompute(model: str, tokens: int, texts: TaskTexts, progress: Progress) -> Recomputed:
    """Compute a context of ``tokens`` tokens in float32, and get it back with every second chunk lost."""
    progress("interleaved recompute")
    prompt = [{"role": "user", "content": texts.take(TASKS[1], tokens)}]
    options: dict[str, Any] = {"app": _APP, "max_tokens": 1, "temperature": 0}
    with (
        TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        ContextStore(Path(folder)) as store,
        open_loading(model, None, store, **EXACT) as runtime,
    ):
        runtime.generate(prompt, **options)
        wait_until_stored(runtime)
        before = cached_content(runtime)
        forget_cached(runtime)
        _lose_every_second(store)
        runtime.generate(prompt, **options)
        wait_until_stored(runtime)
        after = cached_content(runtime)
        statistics = runtime.statistics()
    assert statistics.contexts is not None
    return Recomputed(
        len(before),
        statistics.engine.recomputed_chunks,
        statistics.contexts.chunks_in,
        largest_difference(before, after),
    )


def largest_difference(before: Content, after: Content) -> float | None:
    """Return the largest difference of a float32 of the blocks ``before``; None if one of them is gone."""
    if not before or before.keys() - after.keys():
        return None
    return max(
        float(np.abs(old.view(np.float32) - new.view(np.float32)).max())
        for block_hash, caches in before.items()
        for old, new in zip(caches, after[block_hash], strict=True)
    )


def _lose_every_second(store: ContextStore) -> None:
    read, numbers = store.read_all, count()
    lost = ChunkDamagedError("a chunk is left out by the bench. It is computed again.")

    def damaged(
        locations: Sequence[ChunkLocation], following: Sequence[ChunkLocation] = ()
    ) -> list[Chunk | ChunkDamagedError]:
        return [lost if next(numbers) % 2 else chunk for chunk in read(locations, following)]

    store.read_all = damaged  # type: ignore[method-assign]
