"""Stored responses, each the continuation of another: chains of turns in contexts."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from agentrt.errors import ContextBusyError, ContextNotFoundError

from .app_contexts import OpenTurn, response_id, shows_response
from .context import Context, ContextKind, Message, Turn
from .table import ContextTable


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """A response, and the conversation that ends with it."""

    body: Mapping[str, Any]
    conversation: Context
    """Its context up to this response: what came before, the response's input, its output."""

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages of the conversation."""
        return self.conversation.messages

    @property
    def turns(self) -> int:
        """Turns of the context up to this response."""
        return len(self.conversation.turns)


class ResponseChains:
    """The stored responses of each app. Thread-safe.

    A response that continues another one is a turn of the same context, so that a chain has one text and one
    KV cache. One that continues a response which is no longer the last of its context, or which another
    request is continuing, begins a context of its own with a copy of the conversation.
    """

    def __init__(self, table: ContextTable) -> None:
        """The responses are turns of contexts of ``table``."""
        self._table = table

    def find(self, app: str, id: str) -> StoredResponse | None:
        """Return a response; None if ``app`` has no such response."""
        context = self._table.find_response(app, id)
        if context is None:
            return None
        turns = next(count for count, turn in enumerate(context.turns, 1) if response_id(turn) == id)
        body = context.turns[turns - 1].response
        assert body is not None
        return StoredResponse(body, replace(context, turns=context.turns[:turns]))

    def context_for(self, app: str, previous: StoredResponse | None, session: str | None = None) -> Context:
        """Return a context whose text ends with ``previous``, a new one if need be. Blocks for the disk.

        ``previous`` may be from another table. ``session`` names a new one.

        Raises:
            ContextQuotaError, ContextStoreError: see :meth:`ContextTable.create`.
        """
        if previous is not None:
            context = self._table.find_response(app, previous.body["id"])
            if context is not None and self._table.can_begin_turn(app, context.id, previous.turns):
                return context
        if previous is None:
            return self._table.create(app, ContextKind.RESPONSES, session=session)
        text = previous.conversation
        copied = tuple(map(_without_response, text.turns))
        return self._table.create(app, ContextKind.RESPONSES, text.first_messages, session, copied)

    def begin(self, app: str, context: Context) -> OpenTurn | None:
        """Return the turn of the next response of ``context``; None if it has been continued or deleted."""
        try:
            return self._table.begin_turn(app, context.id, len(context.turns))
        except (ContextBusyError, ContextNotFoundError):
            return None

    def close(self, app: str, turn: OpenTurn) -> None:
        """End a turn, and delete its context if no response was stored in it. Blocks for the disk."""
        turn.close()
        self._delete_if_empty(app, turn.context_id)

    def delete(self, app: str, id: str) -> bool:
        """Delete a response; False if ``app`` has no such response. Blocks for the disk.

        Responses that continue it keep the whole conversation.

        Raises:
            ContextBusyError: a request continues its chain.
            ContextStoreError: the text cannot be written; the response stays.
        """
        stored = self.find(app, id)
        if stored is None:
            return False
        with self._table.begin_turn(app, stored.conversation.id) as turn:
            turns = [_without_response(each) if response_id(each) == id else each for each in turn.turns]
            while turns and response_id(turns[-1]) is None:
                turns.pop()
            turn.replace(turns)
        self._delete_if_empty(app, stored.conversation.id)
        return True

    def _delete_if_empty(self, app: str, context_id: str) -> None:
        with suppress(ContextNotFoundError):
            if not shows_response(self._table.get(app, context_id).turns):
                self._table.delete(app, context_id)


def _without_response(turn: Turn) -> Turn:
    """Return a turn whose response cannot be found; its output stays, as later responses have read it."""
    return turn if turn.response is None else replace(turn, response={"output": turn.response["output"]})
