"""What all copies of one speculating chat model share, and the requests that it sends to itself."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from contextlib import AbstractContextManager, aclosing, closing, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from langchain_core.language_models import BaseChatModel

from agentrt.adapting import Turns
from agentrt.drafts import Speculator

from .bound_tools import LastBoundTools

if TYPE_CHECKING:
    from ...stainless.tool_cache import ToolCaches

Predictor = Speculator | BaseChatModel


@dataclass(frozen=True)
class ModelState:
    """Predictors, settings and report of a speculating model; shared by its copies."""

    turns: Turns
    tool_cache: ToolCaches | None = None
    """The endpoints to submit results to; None if results are not submitted over HTTP."""
    tools: LastBoundTools = field(default_factory=LastBoundTools)

    def __deepcopy__(self, memo: object) -> ModelState:
        """Return the state itself: its predictors may hold models of their own."""
        return self


OpenContext = Callable[[], AbstractContextManager[object]]
"""Returns a new context manager, such as that of :func:`inside_turn_of`."""

_in_turn_of: ContextVar[ModelState | None] = ContextVar("agentrt_in_turn_of", default=None)


@contextmanager
def inside_turn_of(state: ModelState) -> Iterator[None]:
    """Mark the block as part of a turn of the model with this state: its nested requests start no turn."""
    token = _in_turn_of.set(state)
    try:
        yield
    finally:
        _in_turn_of.reset(token)


def is_inside_turn_of(state: ModelState) -> bool:
    """Whether this code runs inside a turn of the model with this state."""
    return _in_turn_of.get() is state


def generate_within(open_context: OpenContext, chunks: Any) -> Generator[Any, None, None]:
    """Yield from the generator ``chunks``, which runs within ``open_context()``; its consumer does not."""
    with closing(chunks):
        while True:
            with open_context():
                chunk = next(chunks, None)
            if chunk is None:
                return
            yield chunk


async def agenerate_within(open_context: OpenContext, chunks: Any) -> AsyncGenerator[Any, None]:
    """:func:`generate_within` for an async generator."""
    async with aclosing(chunks):
        while True:
            with open_context():
                chunk = await anext(chunks, None)
            if chunk is None:
                return
            yield chunk
