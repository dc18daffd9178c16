"""The KV arena of a runtime that serves nothing, seen from the bench."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from agentrt.runtime import LocalRuntime
    from agentrt.runtime.kv.block_pool import BlockPool

T = TypeVar("T")
Content: TypeAlias = dict[bytes, list[NDArray[np.uint8]]]
"""The bytes of blocks, by hash and cache tensor."""


def run_on_engine(runtime: LocalRuntime, function: Callable[[], T]) -> T:
    """Return the result of ``function``, which is called on the engine thread."""
    done: Future[T] = Future()

    def call(nothing: object) -> None:
        try:
            done.set_result(function())
        except BaseException as error:  # noqa: BLE001 - it is raised where it was waited for
            done.set_exception(error)

    runtime._engine._commands.put((call, None))
    return done.result()


def free_blocks(pool: BlockPool, blocks: list[int]) -> None:
    """Make cached blocks that no request holds free; called on the engine thread."""
    for block in blocks:
        del pool._idle[block]
        pool._uncache(block)
        pool._free.append(block)


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

    return run_on_engine(runtime, copy)


def token_bytes(runtime: LocalRuntime) -> float:
    """Return the bytes of a token's keys and values."""
    return runtime._arena.memory_bytes / runtime._arena.capacity_tokens
