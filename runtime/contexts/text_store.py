"""What keeps the texts of contexts beyond the life of the process, and their form in it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from .context import ContextKind, Message, Turn


class StoredText(Protocol):
    """The stored text of one context: a header that never changes, and records. Calls block for the disk."""

    @property
    def id(self) -> str:
        """The context's id."""
        ...

    @property
    def header(self) -> Mapping[str, Any]:
        """JSON types."""
        ...

    @property
    def used(self) -> float:
        """When it was last used, as far as the store knows: Unix time in seconds."""
        ...

    def read_text(self) -> list[bytes]:
        """Return all records in order.

        Raises:
            ContextDamagedError: the text is damaged; its file was set aside, and the context removed.
            ContextStoreError: it cannot be read.
        """
        ...

    def append_text(self, record: bytes) -> None:
        """Append a record; it survives a crash once this returns.

        Raises:
            ContextStoreError: it cannot be written; the earlier records stay.
            ContextNotFoundError: the context was deleted.
        """
        ...

    def replace_text(self, records: Sequence[bytes]) -> None:
        """Put ``records`` in place of all records, at once; raises as :meth:`append_text` does."""
        ...

    def touch(self) -> None:
        """Make it the most recently used context of its app; without I/O."""
        ...


class TextStore(Protocol):
    """The stored texts of all apps. Thread-safe."""

    def create(self, app: str, context_id: str, header: Mapping[str, Any]) -> StoredText:
        """Return a new text without records; it survives a crash once this returns.

        Raises:
            ContextStoreError: it cannot be written.
            ContextQuotaError: the store is full.
        """
        ...

    def contexts(self, app: str) -> Iterable[StoredText]:
        """Return the texts of ``app``, the least recently used first."""
        ...

    def delete(self, app: str, context_id: str) -> None:
        """Delete a text for good.

        Raises:
            ContextStoreError: it cannot be deleted.
        """
        ...

    def delete_all(self, app: str) -> None:
        """Delete all that the store has of ``app`` for good: texts, and KV of requests without a context.

        Raises:
            ContextStoreError: some of it cannot be deleted.
        """
        ...


def encode_header(
    kind: ContextKind, session: str | None, created: float, messages: Iterable[Message]
) -> dict[str, Any]:
    """Return what a context has from its beginning."""
    return {"kind": kind.value, "session": session, "created": created, "messages": list(messages)}


def has_text(header: Mapping[str, Any]) -> bool:
    """Whether a stored context is one of a table; the store also has contexts of KV blocks alone."""
    return header.get("kind") in set(ContextKind)


def decode_header(
    header: Mapping[str, Any],
) -> tuple[ContextKind, str | None, float, tuple[Message, ...]]:
    """Return kind, session, time of creation and first messages."""
    kind = ContextKind(header["kind"])
    return kind, header["session"], header["created"], tuple(header["messages"])


def encode_turn(turn: Turn) -> bytes:
    """Return the record of a turn."""
    record = {
        "messages": turn.messages,
        "tokens": turn.tokens,
        "ended": turn.ended,
        "response": turn.response,
    }
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode("utf-8")


def decode_turn(record: bytes) -> Turn:
    """Return the turn of a record."""
    fields = json.loads(record)
    return Turn(tuple(fields["messages"]), fields["tokens"], fields["ended"], fields["response"])
