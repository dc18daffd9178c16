"""What is kept of apps in a folder of contexts, read beside a runtime that may use it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from agentrt.errors import ContextStoreError

from ..kv.store.context_database import NAME, ContextDatabase, DamagedRowError, StoredEntry, disk_errors
from ..kv.store.folder import KeySource, open_database, use_key
from ..kv.store.store import ContextStore
from .context import ContextKind, decode_turn


@dataclass(frozen=True, slots=True)
class KeptContext:
    """One context as it is on disk."""

    folder: Path
    """The folder of its model."""
    app: str
    id: str
    kind: str
    """A :class:`ContextKind`, or what a store keeps besides: ``prefix`` is keys and values of requests that
    name no context."""
    session: str | None
    messages: int | None
    """Messages of its text; None for one that has none."""
    tokens: int | None
    """Of its text after the last turn; None where there is no text."""
    size: int
    """Bytes of its text, keys and values. What several contexts of an app share counts for each."""
    used: float
    """When it was last used: Unix time in seconds."""


def kept_contexts(context_folder: Path, key: KeySource | None) -> list[KeptContext]:
    """Return the contexts of all apps and models in a folder; nothing is changed.

    Raises:
        ContextKeyError: they are not encrypted with ``key``, or are.
        ContextStoreError: they cannot be read.
    """
    with disk_errors(context_folder):
        files = sorted(context_folder.glob(f"*/{NAME}"))
    return [context for file in files for context in _read(file.parent, key)]


def delete_kept(folder: Path, key: KeySource | None, app: str, context_id: str | None) -> bool:
    """Delete a context in the folder of a model, or all that is kept of the app for None.

    Returns False where a runtime uses the folder, which would not know of it.

    Raises:
        ContextNotFoundError: the app has no such context any more.
        ContextStoreError: it cannot be deleted.
    """
    try:
        store = ContextStore(folder, key=key)
    except ContextStoreError as error:
        if isinstance(error.__cause__, BlockingIOError):
            return False
        raise
    with store:
        if context_id is None:
            store.delete_all(app)
        else:
            store.delete(app, context_id)
    return True


def _read(folder: Path, key: KeySource | None) -> list[KeptContext]:
    with disk_errors(folder), closing(open_database(folder)) as database:
        use_key(database, key)
        database.execute("BEGIN")  # one state, whatever a runtime writes meanwhile
        sizes = {
            (chunk.app, chunk.block_hash): chunk.sealed_bytes
            for chunks in database.files().values()
            for chunk in chunks
        }
        entries = [StoredEntry(**fields) for fields in database.contexts() if "id" in fields]
        return [_context(folder, database, entry, sizes) for entry in entries]


def _context(
    folder: Path, database: ContextDatabase, entry: StoredEntry, sizes: Mapping[tuple[str, bytes], int]
) -> KeptContext:
    kind, messages, tokens = str(entry.header.get("kind")), None, None
    if kind in (ContextKind.CONTEXT, ContextKind.RESPONSES):
        with suppress(DamagedRowError):  # which its runtime sets aside
            turns = [decode_turn(record) for record in database.read_records(entry)]
            messages = len(entry.header["messages"]) + sum(len(turn.messages) for turn in turns)
            tokens = turns[-1].tokens if turns else 0
    return KeptContext(
        folder=folder,
        app=entry.app,
        id=entry.id,
        kind=kind,
        session=entry.header.get("session"),
        messages=messages,
        tokens=tokens,
        size=entry.text_bytes + sum(sizes.get((entry.app, each), 0) for each in database.uses(entry)),
        used=entry.used_ns / 1e9,
    )
