"""A context of an app, as its owner sees it, and its text as a store keeps it."""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

Message: TypeAlias = Mapping[str, Any]
"""One chat message in OpenAI's shape, of JSON types only."""


class ContextKind(enum.StrEnum):
    """How a context came to be, which decides how long it stays and who has its text."""

    CONTEXT = "context"
    """Made by the app, which calls it and deletes it."""
    SESSION = "session"
    """Named by the app's requests, which have the whole conversation: the context has no text of its own."""
    RESPONSES = "responses"
    """A chain of stored responses, each the continuation of the one before."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One call of a context: what it added to the text."""

    messages: tuple[Message, ...]
    """The messages of the prompt, then those of the answer."""
    tokens: int
    """Tokens of the whole conversation after it."""
    ended: float
    """Unix time in seconds."""
    response: Mapping[str, Any] | None = None
    """The body of the stored response, if it is one. Its ``output`` alone once it was deleted, and in a copy
    of the conversation: items of a conversation keep their ids."""


@dataclass(frozen=True, slots=True)
class Context:
    """A snapshot of one context (``LLMCtx`` in LLMS, Table 1); it does not change."""

    id: str
    """Minted by the table and unguessable."""
    kind: ContextKind
    session: str | None
    """The name that requests give a session, or the first one gave a chain of responses; None without."""
    created: float
    last_used: float
    """When it was created and last used: Unix time in seconds."""
    running: bool
    """Whether a request of it is in progress."""
    first_messages: tuple[Message, ...]
    """The messages before its first turn."""
    turns: tuple[Turn, ...]
    request_tokens: int | None = None
    """Tokens of prompt and answer of the session's request that ended last; None before the first one since
    the process began, and for other kinds."""

    @property
    def messages(self) -> tuple[Message, ...]:
        """The whole text: system prompt, prompts, answers."""
        return (*self.first_messages, *(message for turn in self.turns for message in turn.messages))

    @property
    def tokens(self) -> int | None:
        """Tokens of the text after the last turn; 0 before the first one, None if it is not known."""
        if self.kind is ContextKind.SESSION:
            return self.request_tokens
        return self.turns[-1].tokens if self.turns else 0


def encode_turn(turn: Turn) -> bytes:
    """Return the record of a turn."""
    return json.dumps(asdict(turn), ensure_ascii=False, separators=(",", ":")).encode("utf-8")


def decode_turn(record: bytes) -> Turn:
    """Return the turn of a record."""
    fields = json.loads(record)
    return Turn(tuple(fields["messages"]), fields["tokens"], fields["ended"], fields["response"])
