"""The sides of the bench, how contexts are kept on one engine (LLMS §4): their swappers, and runtimes that
are opened with them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from unittest.mock import patch

from agentrt.runtime import LocalRuntime, RuntimeConfig
from agentrt.runtime.contexts import opening
from agentrt.runtime.kv.store.chunk_files import Chunk
from agentrt.runtime.kv.store.store import ContextStore
from agentrt.runtime.kv.swap import chunk_loader, chunk_saver
from agentrt.runtime.kv.swap.chunks import SwapOut
from agentrt.runtime.kv.swap.costs import LinearCost
from agentrt.runtime.kv.swap.swapper import ContextFiles, Swapper

from ..engines.local import run_on_engine

if TYPE_CHECKING:
    from agentrt.runtime import LocalRuntime
    from agentrt.runtime.kv.block_pool import BlockPool


@dataclass(frozen=True, slots=True)
class SwapPolicy:
    """How contexts leave the memory and come back."""

    name: str
    stores: bool = True
    """Whether what leaves the memory is written to disk; otherwise it is dropped and computed again."""
    ahead_of_time: bool = True
    """Whether contexts are written when a call ends, rather than when their memory is needed."""
    whole_contexts: bool = False
    """Whether a context leaves the memory as a whole, rather than chunk by chunk."""
    recompute: bool = True
    """Whether a part of a context is computed while another one is read."""
    precision: str = "u8"
    """Of the keys and values in memory and on disk."""
    compression: float | None = None
    """Bytes of stored chunks, as a share of those at 8 bits; None stores them as they are."""
    arena: float | None = None
    """KV arena, in contexts of full length; the rest of the memory has stored chunks. None: it has none."""
    group: int | None = None
    """KV blocks that are read, and written, together at most; None for the runtime's own numbers."""

    def settings(self, budget_bytes: int, context_bytes: float) -> dict[str, Any]:
        """Return the settings of a runtime with ``budget_bytes`` bytes of memory for contexts.

        ``context_bytes`` are those of a context of full length at 8 bits.
        """
        arena = budget_bytes if self.arena is None else min(budget_bytes, int(self.arena * context_bytes))
        settings: dict[str, Any] = {
            "memory_bytes": arena,
            "context_memory_bytes": budget_bytes - arena,
            "kv_cache_precision": self.precision,
        }
        if self.compression is not None:
            settings["context_compression"] = self.compression
        return settings


OURS: Final = SwapPolicy("ours")
"""The runtime's default settings."""
VLLM_SQ: Final = SwapPolicy("VLLM-SQ", ahead_of_time=False, recompute=False)
VLLM_S: Final = replace(VLLM_SQ, name="VLLM-S", precision="f16")
SWAPPING: Final = replace(VLLM_S, name="Swapping", whole_contexts=True)
LMK: Final = replace(SWAPPING, name="LMK", stores=False)

BASELINES: Final = (VLLM_SQ, VLLM_S, SWAPPING, LMK)

IN_MEMORY: Final = replace(OURS, name="ours, compressed in memory", compression=0.5, arena=1.25)
"""The arena holds the context that runs; the others are compressed in the rest of the memory."""


Key: TypeAlias = tuple[str, str]
"""The app of a context, and its id."""
_Blocks = list[tuple[bytes, int, int]]


def free_blocks(pool: BlockPool, blocks: list[int]) -> None:
    """Make cached blocks that no request holds free; called on the engine thread."""
    for block in blocks:
        block_hash = pool._hash_of.pop(block)
        del pool._block_of[block_hash]
        pool.eviction._forget(block_hash)
        pool._free.append(block)


class PolicySwapper(Swapper):
    """The runtime's swapper, which recomputes as a policy says."""

    def __init__(self, policy: SwapPolicy, *arguments: Any, **options: Any) -> None:
        """``arguments`` and ``options`` are those of :class:`Swapper`."""
        super().__init__(*arguments, **options)
        self._recompute = policy.recompute

    def io_cost(self) -> LinearCost:
        """See :meth:`Swapper.io_cost`: reading costs nothing where nothing is recomputed (Eq. 4)."""
        return super().io_cost() if self._recompute else LinearCost(0.0, 0.0)


class OnDemandSwapper(PolicySwapper):
    """A swapper that stores nothing when a request ends.

    Before a call, :meth:`make_room` frees the memory that it needs: blocks of the contexts that were used
    longest ago, which are written first if the policy stores them. All methods but that one are called on
    the engine thread.
    """

    def __init__(self, policy: SwapPolicy, rows: Sequence[Any], codec: Any, **options: Any) -> None:
        """``rows``, ``codec`` and ``options`` are those of :class:`Swapper`."""
        super().__init__(policy, rows, codec, **options)
        self._policy = policy
        self._arena_rows = rows
        self._codec = codec
        store = options["store"]
        self._files = ContextFiles(store) if policy.stores else None
        self._ended: OrderedDict[Key, SwapOut] = OrderedDict()
        self._release: Callable[[Sequence[int]], None] = lambda blocks: None

    def start(self, on_ended: Any, on_copied: Any) -> None:
        self._release = on_copied
        super().start(on_ended, on_copied)

    def stores(self, app: str, block_hash: bytes) -> bool:
        """See :meth:`Swapper.stores`. Nothing counts as stored: every ended request is handed over."""
        return False

    def swap_out(self, swap_out: SwapOut) -> None:
        """Note the blocks of an ended request, which stay where they are."""
        key = (swap_out.app, swap_out.context_id)
        self._ended[key] = swap_out
        self._ended.move_to_end(key)
        self._release([chunk.block for chunk in swap_out.chunks])

    def make_room(self, runtime: LocalRuntime, key: Key, blocks: int) -> None:
        """Free blocks, so that context ``key``, of ``blocks`` blocks after its next call, fits."""
        run_on_engine(runtime, lambda: self._make_room(runtime._pool, key, blocks))

    def forget(self, runtime: LocalRuntime, key: Key) -> None:
        """Drop the blocks of a deleted context."""

        def drop() -> None:
            deleted = self._ended.pop(key, None)
            if deleted is not None:
                resident = self._resident(runtime._pool, deleted)
                free_blocks(runtime._pool, [block for _, _, block in resident])

        run_on_engine(runtime, drop)

    def _make_room(self, pool: BlockPool, key: Key, blocks: int) -> None:
        own = self._ended.get(key)
        if own is not None:
            blocks -= len(self._resident(pool, own))
        for victim in [each for each in self._ended if each != key]:
            needed = blocks - len(pool._free)
            if needed <= 0:
                return
            self._evict(pool, self._ended[victim], needed)

    def _evict(self, pool: BlockPool, victim: SwapOut, needed: int) -> None:
        """Free ``needed`` blocks of a context, its last ones, or all of them."""
        resident = self._resident(pool, victim)
        chosen = resident if self._policy.whole_contexts else resident[-needed:]
        if self._files is not None:
            self._write(self._files, victim, chosen)
        free_blocks(pool, [block for _, _, block in chosen])

    def _write(self, files: ContextFiles, victim: SwapOut, chosen: _Blocks) -> None:
        """Write what is not stored yet, and wait until it is on the device."""
        new = [each for each in chosen if super(PolicySwapper, self).locate(victim.app, each[0]) is None]
        if not new:
            return
        blocks = [block for _, _, block in new]
        rows = [cache[blocks] for cache in self._arena_rows]
        payloads = self._codec.encode(rows, [0] * len(new), [position for _, position, _ in new])
        chunks = [Chunk(each[0], 0, payload) for each, payload in zip(new, payloads, strict=True)]
        stored = files.write(victim, chunks)
        if len(stored) < len(chunks):
            raise AssertionError(f"{len(chunks) - len(stored)} chunks of a baseline were not stored")

    @staticmethod
    def _resident(pool: BlockPool, context: SwapOut) -> _Blocks:
        """The blocks of a context that are cached and held by no request: hash, position, block."""
        found = ((each, at, pool.find(each)) for at, each in enumerate(context.block_hashes))
        return [(each, at, block) for each, at, block in found if block is not None and each in pool.eviction]


@contextmanager
def grouped(blocks: int | None) -> Iterator[None]:
    """Have runtimes of the block read and write so many KV blocks together at most; None changes nothing."""
    with ExitStack() as stack:
        for module in () if blocks is None else (chunk_loader, chunk_saver):
            stack.enter_context(patch.object(module, "_GROUP", blocks))
        yield


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
