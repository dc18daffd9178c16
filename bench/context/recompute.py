"""Whether chunks that are computed between loaded ones are what they were (LLMS §3.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np

from agentrt.errors import ChunkDamagedError
from agentrt.runtime.kv.store.chunks import Chunk, ChunkLocation
from agentrt.runtime.kv.store.store import ContextStore

from .arena import Content, cached_content, forget_cached
from .exact_runtime import EXACT, open_loading
from .replay import wait_until_stored
from .sweeps import Progress
from .texts import TaskTexts
from .traces import TASKS

_APP: Final = "notes"


@dataclass(frozen=True, slots=True)
class Recomputed:
    """A context of which every second chunk was computed again, between those that were loaded."""

    blocks: int
    recomputed: int
    loaded: int
    max_abs_diff: float | None
    """The largest difference of a key or a value from what it was before; None if some are gone."""


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
