"""The contexts of all apps of one model: found by id, limited in number, continued by one call at a time."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, Final, TypeAlias

from agentrt.errors import ContextBusyError, ContextDamagedError, ContextNotFoundError, ContextQuotaError

from ..kv.store.store import ContextStore, StoredContext
from .app_contexts import AppContexts, Entry, OpenTurn, shows_response
from .context import (
    Context,
    ContextKind,
    Message,
    Turn,
    decode_turn,
    encode_turn,
)

_log: Final = logging.getLogger(__name__)

OnDelete: TypeAlias = Callable[[str, str | None], None]
"""Receives the app and the id of a context that is no more; None for all contexts of the app."""


class ContextTable:
    """The contexts of each app (LLMS §3.1). Thread-safe.

    An app finds only its own contexts: the id of another app's is as unknown as one that was never given, and
    finding out takes the same steps.

    An app may make ``limit`` contexts; they stay until it deletes them. Sessions and chains of stored
    responses are kept besides, ``limit`` of both together, and the least recently used one gives way.

    With a store the texts survive the process. Methods block for the disk where they say so, and all of them
    until the contexts of their app were read, which :meth:`load` does.
    """

    def __init__(
        self, limit: int, store: ContextStore | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        """``limit`` counts contexts of an app; ``clock`` returns Unix time and may go backwards."""
        self._limit = limit
        self._store = store
        self._clock = clock
        self._latest = 0.0
        self._apps: dict[str, AppContexts] = {}
        self._listeners: list[OnDelete] = []
        self._lock = threading.Lock()  # of the fields above and all entries; never held for I/O
        self._changing = threading.RLock()  # held, also for I/O, while contexts come and go

    @property
    def store(self) -> ContextStore | None:
        """What keeps the contexts in a folder; None without one."""
        return self._store

    def on_delete(self, listener: OnDelete) -> None:
        """Call ``listener`` for each deletion from now on, on the thread that deletes."""
        self._listeners.append(listener)

    def loaded(self, app: str) -> bool:
        """Whether the contexts of ``app`` are in memory, so that finding them does not block."""
        return self._store is None or app in self._apps

    def load(self, app: str) -> None:
        """Read the stored contexts of ``app``, unless that is done. Blocks for the disk.

        The store sets damaged texts aside; they are reported in the log.

        Raises:
            ContextStoreError: the store cannot be read. The next use tries again.
        """
        self._of(app)

    def create(
        self,
        app: str,
        kind: ContextKind = ContextKind.CONTEXT,
        messages: Sequence[Message] = (),
        session: str | None = None,
        turns: Sequence[Turn] = (),
    ) -> Context:
        """Return a new context whose text is ``messages``, then ``turns``. Blocks for the disk.

        Raises:
            ContextQuotaError: the app has made as many contexts as it may, or the store is full.
            ContextStoreError: the context cannot be stored.
        """
        with self._changing:
            contexts = self._of(app)
            self._make_room(app, contexts, kind)
            id, now = f"ctx_{secrets.token_hex(24)}", self._now()
            stored = None
            if self._store is not None:
                header = {"kind": kind.value, "session": session, "created": now, "messages": list(messages)}
                stored = self._store.create(app, id, header)
                try:
                    if turns:
                        stored.replace_text([encode_turn(turn) for turn in turns])
                except BaseException:
                    self._store.delete(app, id)
                    raise
            context = Context(id, kind, session, now, now, False, tuple(messages), tuple(turns))
            with self._lock:
                contexts.add(Entry(context, stored))
                return context

    def session(self, app: str, name: str) -> str:
        """Return the id of the context of a session. It is created if it is new: that blocks for the disk.

        Raises:
            ContextQuotaError, ContextStoreError: see :meth:`create`.
        """
        contexts = self._of(app)
        with self._lock:
            entry = contexts.sessions.get(name)
        if entry is not None:
            return entry.context.id
        with self._changing:  # another thread may have created it meanwhile
            entry = contexts.sessions.get(name)
            return (
                self.create(app, ContextKind.SESSION, session=name).id if entry is None else entry.context.id
            )

    def get(self, app: str, context_id: str) -> Context:
        """Return a context as it is now.

        Raises:
            ContextNotFoundError: ``app`` has no such context.
        """
        contexts = self._of(app)
        with self._lock:
            return _find(contexts, context_id).snapshot()

    def find(self, app: str, context_id: str) -> Context | None:
        """Return a context as it is now; None if ``app`` has no such context."""
        contexts = self._of(app)
        with self._lock:
            entry = contexts.entries.get(context_id)
            return None if entry is None else entry.snapshot()

    def contexts(self, app: str) -> list[Context]:
        """Return the contexts of ``app``, the most recently used first."""
        contexts = self._of(app)
        with self._lock:
            entries = list(contexts.entries.values())
        return [entry.snapshot() for entry in reversed(entries)]

    def find_response(self, app: str, response_id: str) -> Context | None:
        """Return the context whose text has a stored response; None if ``app`` has no such response."""
        contexts = self._of(app)
        with self._lock:
            entry = contexts.responses.get(response_id)
            return None if entry is None else entry.snapshot()

    def delete(self, app: str, context_id: str) -> None:
        """Delete a context and its text, and cancel the call that continues it. Blocks for the disk.

        Raises:
            ContextNotFoundError: ``app`` has no such context.
            ContextStoreError: its text cannot be deleted; the context stays.
        """
        with self._changing:
            contexts = self._of(app)
            with self._lock:
                entry = _find(contexts, context_id)
                entry.deleted = True
                contexts.remove(entry)
                cancels = list(entry.running.values())
            for cancel in cancels:
                cancel()
            try:
                if self._store is not None:
                    with entry.writing:
                        self._store.delete(app, context_id)
            except BaseException:
                with self._lock:
                    entry.deleted = False
                    contexts.add(entry)
                raise
        for listener in self._listeners:
            listener(app, context_id)

    def delete_all(self, app: str) -> None:
        """Delete everything that is kept of ``app``: all contexts, and what the store has besides.

        Calls in progress are cancelled, but for requests of sessions. Blocks for the disk.

        Raises:
            ContextStoreError: some of it cannot be deleted, and is still there.
        """
        with self._changing:
            entries = self._remove_all(app)
            for entry in entries:
                with entry.writing:  # a turn that is being written ends first; later ones find it deleted
                    pass
            try:
                if self._store is not None:
                    self._store.delete_all(app)
            except BaseException:
                del self._apps[app]  # the next use reads what is still there
                raise
            finally:
                for listener in self._listeners:
                    listener(app, None)

    def begin_turn(self, app: str, context_id: str, turns: int | None = None) -> OpenTurn:
        """Return the right to continue a context, until it is committed or closed.

        ``turns`` is how many turns its text must have; None for any number.

        Raises:
            ContextNotFoundError: ``app`` has no such context.
            ContextBusyError: another call continues it, or has continued it behind ``turns``.
        """
        contexts = self._of(app)
        with self._lock:
            entry = _find(contexts, context_id)
            if not _can_begin_turn(entry, turns):
                raise ContextBusyError(context_id)
            contexts.touch(entry, self._now())
            entry.open_turn = turn = OpenTurn(contexts, entry, self._lock, self._now)
            return turn

    def can_begin_turn(self, app: str, context_id: str, turns: int) -> bool:
        """Whether :meth:`begin_turn` would succeed now, also while the request of the last turn winds up."""
        contexts = self._of(app)
        with self._lock:
            entry = contexts.entries.get(context_id)
            return entry is not None and _can_begin_turn(entry, turns)

    def track(
        self,
        app: str,
        context_id: str,
        output: Future[Any],
        cancel: Callable[[], None],
        tokens: Callable[[], int | None] = lambda: None,
    ) -> None:
        """Count a request of a context as running until ``output`` is set.

        ``cancel`` is called if the context is deleted before, unless it is a session, whose requests have the
        whole conversation and need no context. ``tokens`` then returns the length of prompt and answer, None
        if there is no answer. A context that was deleted before is no error here: a call learns it when it
        commits its turn.
        """
        contexts = self._of(app)
        with self._lock:
            entry = contexts.entries.get(context_id)
            if entry is None:
                return
            contexts.touch(entry, self._now())
            entry.running[output] = (lambda: None) if entry.context.kind is ContextKind.SESSION else cancel

        def end(_: Future[Any]) -> None:
            ended = tokens() if entry.context.kind is ContextKind.SESSION else None
            with self._lock:
                del entry.running[output]
                if ended is not None:
                    entry.context = replace(entry.context, request_tokens=ended)

        output.add_done_callback(end)

    def _remove_all(self, app: str) -> list[Entry]:
        """Remove all contexts of ``app`` from memory, cancel their calls, and return them."""
        with self._lock:
            contexts = self._apps.setdefault(app, AppContexts())
            entries = list(contexts.entries.values())
            cancels = [cancel for entry in entries for cancel in entry.running.values()]
            for entry in entries:
                entry.deleted = True
                contexts.remove(entry)
        for cancel in cancels:
            cancel()
        return entries

    def _of(self, app: str) -> AppContexts:
        """Return the contexts of ``app``, and read them first if that has not been done."""
        if (contexts := self._apps.get(app)) is not None:
            return contexts
        with self._changing:
            if (contexts := self._apps.get(app)) is not None:
                return contexts
            contexts = AppContexts()
            for stored in () if self._store is None else list(self._store.contexts(app)):
                self._restore(app, contexts, stored)
            self._apps[app] = contexts
            return contexts

    def _restore(self, app: str, contexts: AppContexts, stored: StoredContext) -> None:
        if stored.header.get("kind") not in set(ContextKind):  # of KV blocks alone
            return
        kind, created = ContextKind(stored.header["kind"]), stored.header["created"]
        try:
            turns = tuple(map(decode_turn, stored.read_text()))
        except ContextDamagedError as damaged:
            _log.warning("%s", damaged)
            return
        # The process ended before its first response did.
        if kind is ContextKind.RESPONSES and not shows_response(turns):
            assert self._store is not None
            self._store.delete(app, stored.id)
            return
        used = turns[-1].ended if turns else created
        if kind is ContextKind.SESSION:  # its uses leave no text
            used = max(used, stored.used)
        self._latest = max(self._latest, used)
        session, messages = stored.header["session"], tuple(stored.header["messages"])
        context = Context(stored.id, kind, session, created, used, False, messages, turns)
        contexts.add(Entry(context, stored))

    def _make_room(self, app: str, contexts: AppContexts, kind: ContextKind) -> None:
        """Delete the contexts that a new one of this kind replaces.

        Raises:
            ContextQuotaError: there are none, because the app has made all of them.
        """
        made_by_app = kind is ContextKind.CONTEXT
        with self._lock:
            others = len(contexts.others)
            surplus = (len(contexts.entries) - others if made_by_app else others) - self._limit + 1
        if made_by_app and surplus > 0:
            raise ContextQuotaError("contexts_per_app", self._limit)
        for _ in range(surplus):
            with self._lock:
                entry = contexts.least_recently_used()
            if entry is None:  # all of them run: as many more as there are requests in progress
                return
            self.delete(app, entry.context.id)

    def _now(self) -> float:
        """Return the time, which does not go backwards."""
        self._latest = max(self._latest, self._clock())
        return self._latest


def _find(contexts: AppContexts, context_id: str) -> Entry:
    entry = contexts.entries.get(context_id)
    if entry is None:
        raise ContextNotFoundError(context_id)
    return entry


def _can_begin_turn(entry: Entry, turns: int | None) -> bool:
    return entry.open_turn is None and turns in (None, len(entry.context.turns))
