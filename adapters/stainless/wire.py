"""What one client library's adapter adds: how its requests and answers are read and continued."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from agentrt import DraftRequest, ToolCall
from agentrt.calls import ParserEvent

Body = Mapping[str, Any]
Answered = Sequence[tuple[ToolCall, str]]
"""Calls with their results."""


class AnswerReader(ABC):
    """Reads the tool calls of one answer."""

    def __init__(self) -> None:
        """Create a reader of one answer."""
        self.response_id: str | None = None
        """The id of a streamed answer, once an event has told it."""
        self._answered: list[tuple[ToolCall, str]] = []
        self._complete: Sequence[ToolCall] | None = None

    @abstractmethod
    def read_whole(self, answer: Any) -> Sequence[ToolCall] | None:
        """Return the calls of an answer that is not streamed; None if it is no answer."""

    @abstractmethod
    def read_event(self, event: Any) -> Iterator[ParserEvent]:
        """Read the next event of a streamed answer; yield it as the events that predictors take."""

    def take_answered(self) -> Answered:
        """Return calls that the endpoint has answered itself in this stream, with their results, each once.

        They are not among the answer's complete calls.
        """
        answered, self._answered = self._answered, []
        return answered

    def take_complete(self) -> Sequence[ToolCall] | None:
        """Return the calls of a streamed answer, once, when all are complete; None before and afterwards."""
        calls, self._complete = self._complete, None
        return calls


class Wire(ABC):
    """The requests for answers of one client library, and what its server remembers of them."""

    library: ClassVar[Any]
    """The client's package."""
    paths: ClassVar[frozenset[str]]
    """Of requests for a model's answer."""
    account: ClassVar[tuple[str, ...]]
    """The attributes of a client that say for whom its requests are."""

    def fields(self, body: Body) -> Body:
        """Return the fields of a request, as JSON, to be read by the other methods."""
        return body

    @abstractmethod
    def draft_request(self, path: str, fields: Body) -> DraftRequest:
        """Return the request in the form that predictors take."""

    @abstractmethod
    def answered_ids(self, path: str, fields: Body) -> list[str]:
        """Return the ids of the calls whose results end the history; of one that nobody understands, none."""

    @abstractmethod
    def history_and_rest(self, path: str, fields: Body) -> tuple[Sequence[Body], Body]:
        """Return the history, with calls in the shape of chat completions, and the other fields."""

    @abstractmethod
    def names_its_answer(self, fields: Body) -> bool:
        """Whether the next request will name the answer to this one, which the server keeps."""

    @abstractmethod
    def body_after_calls(self, path: str, body: Body, answered: Answered) -> Body:
        """Return the body of the request that follows an answer with these calls."""

    @abstractmethod
    def reader(self, path: str, fields: Body) -> AnswerReader:
        """Return a reader of the answer to a request."""
