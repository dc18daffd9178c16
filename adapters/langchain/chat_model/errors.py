"""Errors of the runtime that are errors of LangChain, too.

Code that was written for any provider catches them, and so does LangChain's middleware: it does not retry a
wrong request, and summarizes less of a history that is too long.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from langchain_core.exceptions import (
    ContextOverflowError,
    ModelInvalidRequestError,
    ModelRateLimitError,
    ModelTimeoutError,
    OutputParserException,
)

from agentrt.errors import (
    AgentRTError,
    DeadlineExceededError,
    InvalidRequestError,
    OverloadedError,
    PromptTooLongError,
    StructuredOutputError,
)


class ChatPromptTooLongError(PromptTooLongError, ContextOverflowError):
    """The history does not fit. LangChain's ``SummarizationMiddleware`` then cuts what it summarizes."""


class ChatInvalidRequestError(InvalidRequestError, ModelInvalidRequestError):
    """A message or an option has a wrong value; ``field`` names it."""


class ChatTimeoutError(DeadlineExceededError, ModelTimeoutError):
    """The ``timeout`` passed before the answer was complete."""


class ChatOverloadedError(OverloadedError, ModelRateLimitError):
    """Too many requests wait, also after ``max_retries``."""


class ChatStructuredOutputError(StructuredOutputError, OutputParserException):
    """The answer has no value of the schema."""

    def __init__(self, problem: str, answer: str, finish_reason: str) -> None:
        """``answer`` is its text; the other parameters are those of :class:`StructuredOutputError`."""
        super().__init__(problem, finish_reason)
        self.llm_output = answer


_KINDS: Final[Mapping[type[AgentRTError], type[AgentRTError]]] = {
    PromptTooLongError: ChatPromptTooLongError,
    InvalidRequestError: ChatInvalidRequestError,
    DeadlineExceededError: ChatTimeoutError,
    OverloadedError: ChatOverloadedError,
}


@contextmanager
def langchain_errors() -> Iterator[None]:
    """Raise errors of the block as the classes of this module. Others leave it as they are."""
    try:
        yield
    except AgentRTError as error:
        kind = _KINDS.get(type(error))
        if kind is not None:
            error.__class__ = kind
        raise
