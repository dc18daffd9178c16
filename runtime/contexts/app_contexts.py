"""The contexts of one app in memory, by id, by session and by stored response."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ..kv.store.store import StoredContext
from .context import Context, ContextKind, Message, Turn


@dataclass(slots=True, eq=False)
class Entry:
    """One context as the table keeps it. Its fields change under the table's lock only."""

    id: str
    kind: ContextKind
    session: str | None
    created: float
    last_used: float
    first_messages: tuple[Message, ...]
    stored: StoredContext | None
    """Its text on disk; None where texts are in memory only."""
    turns: tuple[Turn, ...] = ()
    open_turn: object | None = None
    """The call that may continue the text, if there is one."""
    request_tokens: int | None = None
    """See :attr:`Context.request_tokens`."""
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
        return Context(
            self.id,
            self.kind,
            self.session,
            self.created,
            self.last_used,
            not self.idle,
            self.first_messages,
            self.turns,
            self.request_tokens,
        )


class AppContexts:
    """The contexts of one app, the least recently used first. Not thread-safe: the table's lock guards it."""

    def __init__(self) -> None:
        """Create it without contexts."""
        self.entries: OrderedDict[str, Entry] = OrderedDict()
        self.others: OrderedDict[str, Entry] = OrderedDict()
        """Those that the app has not made itself, in the same order."""
        self._sessions: dict[str, Entry] = {}
        self._responses: dict[str, Entry] = {}

    def add(self, entry: Entry) -> None:
        """Add ``entry`` as the most recently used one."""
        self.entries[entry.id] = entry
        if entry.kind is not ContextKind.CONTEXT:
            self.others[entry.id] = entry
        if entry.kind is ContextKind.SESSION and entry.session is not None:
            self._sessions[entry.session] = entry
        self.set_turns(entry, entry.turns)

    def remove(self, entry: Entry) -> None:
        """Remove ``entry``, its session and its responses."""
        del self.entries[entry.id]
        self.others.pop(entry.id, None)
        if entry.kind is ContextKind.SESSION and entry.session is not None:
            del self._sessions[entry.session]
        self._forget_responses(entry)

    def touch(self, entry: Entry, now: float) -> None:
        """Make ``entry`` the most recently used one."""
        entry.last_used = now
        self.entries.move_to_end(entry.id)
        if entry.id in self.others:
            self.others.move_to_end(entry.id)
        if entry.stored is not None:
            entry.stored.touch()

    def set_turns(self, entry: Entry, turns: tuple[Turn, ...]) -> None:
        """Make ``turns`` the text of ``entry`` after its first messages."""
        self._forget_responses(entry)
        entry.turns = turns
        self._responses.update((id, entry) for turn in turns if (id := response_id(turn)) is not None)

    def of_session(self, name: str) -> Entry | None:
        """Return the context of a session."""
        return self._sessions.get(name)

    def of_response(self, id: str) -> Entry | None:
        """Return the context whose text has the response ``id``."""
        return self._responses.get(id)

    def least_recently_used(self) -> Entry | None:
        """Return the first idle context that the app has not made itself."""
        return next((entry for entry in self.others.values() if entry.idle), None)

    def _forget_responses(self, entry: Entry) -> None:
        for turn in entry.turns:
            id = response_id(turn)
            if id is not None and self._responses.get(id) is entry:
                del self._responses[id]


def response_id(turn: Turn) -> str | None:
    """Return the id of the response that a turn is; None if there is none, or only its output."""
    return None if turn.response is None else turn.response.get("id")


def shows_response(turns: Sequence[Turn]) -> bool:
    """Whether one of ``turns`` is a response that can be found."""
    return any(response_id(turn) is not None for turn in turns)
