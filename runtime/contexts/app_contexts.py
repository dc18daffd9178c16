"""The contexts of one app in memory, by id, session and stored response; the call that continues one."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any

from agentrt.errors import ContextNotFoundError

from ..kv.store.store import StoredContext
from .context import Context, ContextKind, Message, Turn, encode_turn


@dataclass(slots=True, eq=False)
class Entry:
    """One context as the table keeps it. Its fields change under the table's lock only."""

    context: Context
    """As its owner sees it, but for :attr:`Context.running`."""
    stored: StoredContext | None
    """Its text on disk; None where texts are in memory only."""
    open_turn: object | None = None
    """The call that may continue the text, if there is one."""
    running: dict[object, Callable[[], None]] = field(default_factory=dict)
    """How to cancel each request in progress."""
    deleted: bool = False
    writing: threading.Lock = field(default_factory=threading.Lock)
    """Held while its text on disk is changed."""

    @property
    def idle(self) -> bool:
        """Whether no request uses it."""
        return self.open_turn is None and not self.running

    def snapshot(self) -> Context:
        """Return the context as it is now."""
        return replace(self.context, running=not self.idle)


class AppContexts:
    """The contexts of one app, the least recently used first. Not thread-safe: the table's lock guards it."""

    def __init__(self) -> None:
        """Create it without contexts."""
        self.entries: OrderedDict[str, Entry] = OrderedDict()
        self.others: OrderedDict[str, Entry] = OrderedDict()
        """Those that the app has not made itself, in the same order."""
        self.sessions: dict[str, Entry] = {}
        self.responses: dict[str, Entry] = {}
        """Those whose text has a stored response, by its id."""

    def add(self, entry: Entry) -> None:
        """Add ``entry`` as the most recently used one."""
        self.entries[entry.context.id] = entry
        if entry.context.kind is not ContextKind.CONTEXT:
            self.others[entry.context.id] = entry
        if entry.context.kind is ContextKind.SESSION and entry.context.session is not None:
            self.sessions[entry.context.session] = entry
        self.set_turns(entry, entry.context.turns)

    def remove(self, entry: Entry) -> None:
        """Remove ``entry``, its session and its responses."""
        del self.entries[entry.context.id]
        self.others.pop(entry.context.id, None)
        if entry.context.kind is ContextKind.SESSION and entry.context.session is not None:
            del self.sessions[entry.context.session]
        self._forget_responses(entry)

    def touch(self, entry: Entry, now: float) -> None:
        """Make ``entry`` the most recently used one."""
        entry.context = replace(entry.context, last_used=now)
        self.entries.move_to_end(entry.context.id)
        if entry.context.id in self.others:
            self.others.move_to_end(entry.context.id)
        if entry.stored is not None:
            entry.stored.touch()

    def set_turns(self, entry: Entry, turns: tuple[Turn, ...]) -> None:
        """Make ``turns`` the text of ``entry`` after its first messages."""
        self._forget_responses(entry)
        entry.context = replace(entry.context, turns=turns)
        self.responses.update((id, entry) for turn in turns if (id := response_id(turn)) is not None)

    def least_recently_used(self) -> Entry | None:
        """Return the first idle context that the app has not made itself."""
        return next((entry for entry in self.others.values() if entry.idle), None)

    def _forget_responses(self, entry: Entry) -> None:
        for turn in entry.context.turns:
            id = response_id(turn)
            if id is not None and self.responses.get(id) is entry:
                del self.responses[id]


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
        self.context_id = entry.context.id
        self.turns = entry.context.turns
        """The turns before this one."""
        self.messages = entry.context.messages
        """The text before this turn."""

    def __exit__(self, *error: object) -> None:
        """Close the turn."""
        self.close()

    def commit(
        self, messages: Sequence[Message], tokens: int, response: Mapping[str, Any] | None = None
    ) -> None:
        """Append ``messages``, prompt and answer, to the text, and end the turn; nothing if it was closed.

        ``tokens`` is the length of the whole text then. Blocks for the disk: the text survives a crash once
        this returns.

        Raises:
            ContextNotFoundError: the context was deleted meanwhile.
            ContextStoreError: the text cannot be stored; the context is as it was before the turn.
        """
        turn = Turn(tuple(messages), tokens, self._now(), response)
        self._write((*self.turns, turn), lambda stored: stored.append_text(encode_turn(turn)))

    def replace(self, turns: Sequence[Turn]) -> None:
        """Put ``turns`` in place of all turns so far, and end this one; otherwise as :meth:`commit`."""
        records = [encode_turn(turn) for turn in turns]
        self._write(tuple(turns), lambda stored: stored.replace_text(records))

    def check_context(self) -> None:
        """Raise :class:`ContextNotFoundError` if the context was deleted meanwhile."""
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
                self._contexts.touch(
                    entry, max((entry.context.last_used, *(turn.ended for turn in turns[-1:])))
                )
        finally:
            with self._lock:
                self._writing = False
                entry.open_turn = None


def response_id(turn: Turn) -> str | None:
    """Return the id of the response that a turn is; None if there is none, or only its output."""
    return None if turn.response is None else turn.response.get("id")


def shows_response(turns: Sequence[Turn]) -> bool:
    """Whether one of ``turns`` is a response that can be found."""
    return any(response_id(turn) is not None for turn in turns)
