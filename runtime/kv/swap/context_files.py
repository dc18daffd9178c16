"""Which stored context the chunks of a request belong to."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Final

from ..store.chunks import Chunk
from ..store.store import ContextStore, StoredContext
from .chunks import SwapOut

PREFIX_KIND: Final = "prefix"
"""``header["kind"]`` of contexts that keep chunks of requests which name no context; they have no text."""
MAX_PREFIX_CONTEXTS: Final = 64
"""Such contexts of one app; beyond it the one that was used longest ago is deleted."""


class ContextFiles:
    """The contexts of a store, by the requests whose chunks they keep. Used on one thread.

    A request that names no context continues the one whose last chunk is the latest of its own, as the next
    turn of a conversation does. Otherwise it begins a new one, which refers to the chunks of a common prefix.
    """

    def __init__(self, store: ContextStore) -> None:
        """Use the contexts of ``store``."""
        self._store = store

    def write(self, swap_out: SwapOut, chunks: Sequence[Chunk]) -> Sequence[Chunk]:
        """Store ``chunks`` of ``swap_out``, or only note that its context was used. Waits for the disk.

        Returns:
            Those that were stored: not what is stored already or exceeds a quota, and none of a context, or
            of an app, all of whose contexts were deleted meanwhile.

        Raises:
            ContextStoreError: the disk is full or fails.
            ContextNotFoundError: the context is being deleted.
        """
        if not self._store.salts.is_current(swap_out.app, swap_out.salt):
            return ()
        context = self._context_of(swap_out, create=bool(chunks))
        if context is None:
            return ()
        missing = set(context.refer_to(swap_out.block_hashes))
        new = [chunk for chunk in chunks if chunk.block_hash in missing]
        stored = context.append_chunks(new) if new else 0
        context.touch()
        return new[:stored]

    def _context_of(self, swap_out: SwapOut, *, create: bool) -> StoredContext | None:
        if swap_out.context_id:
            return self._store.get(swap_out.app, swap_out.context_id)
        prefixes = [
            context
            for context in self._store.contexts(swap_out.app)
            if context.header.get("kind") == PREFIX_KIND
        ]
        continued = self._continued(prefixes, swap_out.block_hashes)
        if continued is not None or not create:
            return continued
        for context in prefixes[: max(0, len(prefixes) - MAX_PREFIX_CONTEXTS + 1)]:
            self._store.delete(swap_out.app, context.id)
        id = f"kv_{secrets.token_hex(16)}"
        return self._store.create(swap_out.app, id, {"kind": PREFIX_KIND}, salt=swap_out.salt)

    def _continued(
        self, contexts: Sequence[StoredContext], block_hashes: Sequence[bytes]
    ) -> StoredContext | None:
        """Return the context whose last chunk comes latest in ``block_hashes``."""
        places = {block_hash: place for place, block_hash in enumerate(block_hashes)}
        found: tuple[int, StoredContext] | None = None
        for context in contexts:
            used = context.block_hashes
            place = places.get(used[-1], -1) if used else -1
            if place >= 0 and (found is None or place > found[0]):
                found = (place, context)
        return None if found is None else found[1]
