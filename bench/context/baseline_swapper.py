"""The swapper of the baselines: contexts are written, or dropped, when their memory is needed (LLMS §4)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from agentrt.runtime.kv.store.chunk_files import Chunk
from agentrt.runtime.kv.swap.chunks import SwapOut
from agentrt.runtime.kv.swap.costs import LinearCost
from agentrt.runtime.kv.swap.swapper import ContextFiles, Swapper

from ..engines.local import run_on_engine
from .policies import SwapPolicy

if TYPE_CHECKING:
    from agentrt.runtime import LocalRuntime
    from agentrt.runtime.kv.block_pool import BlockPool

Key: TypeAlias = tuple[str, str]
"""The app of a context, and its id."""
_Blocks = list[tuple[bytes, int, int]]


def free_blocks(pool: BlockPool, blocks: list[int]) -> None:
    """Make cached blocks that no request holds free; called on the engine thread."""
    for block in blocks:
        del pool._idle[block]
        pool._uncache(block)
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
        """See :meth:`Swapper.start`."""
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
        return [(each, at, block) for each, at, block in found if block is not None and block in pool._idle]
