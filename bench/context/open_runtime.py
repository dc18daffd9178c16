"""Runtimes of the context bench in its own process: their swapper, and their KV arena."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from agentrt.runtime import LocalRuntime, RuntimeConfig
from agentrt.runtime.contexts import opening
from agentrt.runtime.kv.store.store import ContextStore

from ..engines.local import run_on_engine
from .baseline_swapper import PolicySwapper, free_blocks
from .policies import WITHOUT_RECOMPUTE

Content: TypeAlias = dict[bytes, list[NDArray[np.uint8]]]
"""The bytes of blocks, by hash and cache tensor."""


@contextmanager
def open_with_swapper(
    model: str,
    swapper: Callable[..., Any],
    store: ContextStore | None = None,
    **settings: Any,
) -> Iterator[LocalRuntime]:
    """Open ``model`` with what ``swapper`` returns in place of the runtime's own swapper."""
    with ExitStack() as stack:
        with patch.object(opening, "Swapper", swapper):
            runtime = LocalRuntime.open(model, RuntimeConfig(**settings), context_store=store)
        yield stack.enter_context(runtime)


@contextmanager
def open_loading(
    model: str, folder: Path | None, store: ContextStore | None = None, **settings: Any
) -> Iterator[LocalRuntime]:
    """Open ``model`` with contexts in ``folder`` or ``store``; all that is stored of a prompt is loaded."""
    if folder is not None:
        settings["context_folder"] = folder
    with open_with_swapper(model, partial(PolicySwapper, WITHOUT_RECOMPUTE), store, **settings) as runtime:
        yield runtime


def forget_cached(runtime: LocalRuntime) -> None:
    """Free all cached blocks, as if other contexts had needed the memory."""
    pool = runtime._pool
    run_on_engine(runtime, lambda: free_blocks(pool, list(pool._idle)))


def cached_content(runtime: LocalRuntime) -> Content:
    """Return the content of all cached blocks that no request holds."""

    def copy() -> Content:
        caches = runtime._arena.rows(runtime._platform)
        return {
            block_hash: [cache[block].copy() for cache in caches]
            for block_hash, block in runtime._pool.cached_blocks().items()
        }

    found: Content = run_on_engine(runtime, copy)
    return found
