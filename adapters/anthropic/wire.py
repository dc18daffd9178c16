"""Messages, as the Anthropic client sends them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import anthropic

from agentrt import DraftRequest

from ..stainless.wire import Answered, AnswerReader, Body, Wire
from .message_reader import MessageReader
from .messages import Threads, answered_ids, body_after_calls, draft_request, given_in, history


class AnthropicWire(Wire):
    """The requests for messages, and the message threads that others continue."""

    library: ClassVar = anthropic
    paths: ClassVar = frozenset({"/v1/messages", "/v1/messages?beta=true"})
    account: ClassVar = ("api_key", "auth_token")

    def __init__(self) -> None:
        """Create it without threads."""
        self._threads = Threads()

    def fields(self, body: Body) -> Body:
        """Return the fields that are given, as JSON, with those of the thread that they continue."""
        return self._threads.whole(given_in(body))

    def draft_request(self, path: str, fields: Body) -> DraftRequest:
        """Return the request in the form that predictors take."""
        return draft_request(fields)

    def answered_ids(self, path: str, fields: Body) -> list[str]:
        """Return the ids of the calls whose results end the history."""
        return answered_ids(fields)

    def history_and_rest(self, path: str, fields: Body) -> tuple[Sequence[Body], Body]:
        """Return the history, with calls in the shape of chat completions, and the other fields."""
        return history(fields), {name: value for name, value in fields.items() if name != "messages"}

    def names_its_answer(self, fields: Body) -> bool:
        """Whether the request is one of a message thread."""
        return bool(fields.get("thread"))

    def body_after_calls(self, path: str, body: Body, answered: Answered) -> Body:
        """Return the body of the request that follows an answer with these calls."""
        return body_after_calls(body, answered)

    def reader(self, path: str, fields: Body) -> AnswerReader:
        """Return a reader of the answer to a request."""
        return MessageReader(self._threads, fields)
