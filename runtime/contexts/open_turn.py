"""The right of one call to continue a context."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from agentrt.errors import ContextNotFoundError

from ..kv.store.store import StoredContext
from .app_contexts import AppContexts, Entry
from .context import Message, Turn, encode_turn


class OpenTurn(AbstractContextManager["OpenTurn"]):
    """A call of a context in progress; there is at most one of each context. Thread-safe.

    As a context manager it leaves the context as it was unless the turn was committed.
    """

    def __init__(
        self,
        contexts: AppContexts,
        entry: Entry,
        lock: threading.Lock,
        now: Callable[[], float],
    ) -> None:
        """``lock`` guards ``entry``, one of ``contexts``; ``now`` returns the table's time."""
        self._contexts = contexts
        self._entry = entry
        self._lock = lock
        self._now = now
        self._writing = False
        self.context_id = entry.id
        self.turns = entry.turns
        """The turns before this one."""
        self.messages = entry.snapshot().messages
        """The text before this turn."""

    def __exit__(self, *error: object) -> None:
        """Close the turn."""
        self.close()

    def commit(
        self, messages: Sequence[Message], tokens: int, response: Mapping[str, Any] | None = None
    ) -> None:
        """Append ``messages``, prompt and answer, to the text, and end the turn; nothing if it was closed.

        Blocks for the disk.

        ``tokens`` is the length of the whole text then. The text survives a crash once this returns.

        Raises:
            ContextNotFoundError: the context was deleted meanwhile.
            ContextStoreError: the text cannot be stored; the context is as it was before the turn.
        """
        turn = Turn(tuple(messages), tokens, self._now(), response)
        self._write((*self.turns, turn), lambda stored: stored.append_text(encode_turn(turn)))

    def replace(self, turns: Sequence[Turn]) -> None:
        """Put ``turns`` in place of all turns so far, and end this one. Blocks for the disk.

        Raises:
            ContextNotFoundError, ContextStoreError: see :meth:`commit`.
        """
        records = [encode_turn(turn) for turn in turns]
        self._write(tuple(turns), lambda stored: stored.replace_text(records))

    def check_context(self) -> None:
        """Check that the context still exists.

        Raises:
            ContextNotFoundError: it was deleted meanwhile.
        """
        if self._entry.deleted:
            raise ContextNotFoundError(self.context_id)

    def close(self) -> None:
        """End the turn; without effect if it has ended. A commit in progress on another thread goes on."""
        with self._lock:
            if self._entry.open_turn is self and not self._writing:
                self._entry.open_turn = None

    def _write(self, turns: tuple[Turn, ...], write: Callable[[StoredContext], None]) -> None:
        entry = self._entry
        with self._lock:
            if entry.open_turn is not self:  # it was closed: the call was cancelled
                return
            self._writing = True
        try:
            if entry.stored is not None:
                with entry.writing:
                    self.check_context()
                    write(entry.stored)
            with self._lock:
                self.check_context()
                self._contexts.set_turns(entry, turns)
                self._contexts.touch(entry, max((entry.last_used, *(turn.ended for turn in turns[-1:]))))
        finally:
            with self._lock:
                self._writing = False
                entry.open_turn = None
