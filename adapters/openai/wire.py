"""Chat completions and responses, as the OpenAI client sends them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import openai

from agentrt import DraftRequest
from agentrt.dialects import CHAT_COMPLETIONS, MODEL_PATHS

from ..stainless.wire import Answered, AnswerReader, Body, Wire
from .request_body import answered_ids, body_after_calls, history_and_rest
from .response_history import ResponseHistory
from .tool_call_reader import ChatCompletionReader, ResponseReader


class OpenAIWire(Wire):
    """The requests of both APIs, and the responses that others continue."""

    library: ClassVar = openai
    paths: ClassVar = MODEL_PATHS
    account: ClassVar = ("organization", "project", "api_key")

    def __init__(self) -> None:
        """Create it with an empty history."""
        self._history = ResponseHistory()

    def draft_request(self, path: str, fields: Body) -> DraftRequest:
        """Return a request of either API in the form that predictors take."""
        if path != CHAT_COMPLETIONS:
            return self._history.draft_request(fields)
        tools = [tool for tool in fields.get("tools") or () if tool.get("type") == "function"]
        return DraftRequest(list(fields["messages"]), tools)

    def answered_ids(self, path: str, fields: Body) -> list[str]:
        """Return the ids of the calls whose results end the history."""
        return answered_ids(path, fields)

    def history_and_rest(self, path: str, fields: Body) -> tuple[Sequence[Body], Body]:
        """Return the history, with calls in the shape of chat completions, and the other fields."""
        return history_and_rest(path, fields)

    def names_its_answer(self, fields: Body) -> bool:
        """Whether the request continues a response of the server, or runs in the background."""
        return any(map(fields.get, ("previous_response_id", "conversation", "background")))

    def body_after_calls(self, path: str, body: Body, answered: Answered) -> Body:
        """Return the body of the request that follows an answer with these calls."""
        return body_after_calls(path, body, answered)

    def reader(self, path: str, fields: Body) -> AnswerReader:
        """Return a reader of the answer to a request of either API."""
        return ChatCompletionReader() if path == CHAT_COMPLETIONS else ResponseReader(self._history, fields)
