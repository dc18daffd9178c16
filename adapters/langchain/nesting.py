"""Telling a user's request to a chat model from those that the model sends to itself.

Chat models implement one method by another (``_agenerate`` by ``_astream``, ``_astream`` by ``_stream`` in a
thread). Only the outermost request speculates: the model's own code runs inside :func:`inside_turn_of`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from contextlib import AbstractContextManager, aclosing, closing, contextmanager
from contextvars import ContextVar
from typing import Any

Inside = Callable[[], AbstractContextManager[object]]

_in_turn_of: ContextVar[object] = ContextVar("agentrt_in_turn_of", default=None)


@contextmanager
def inside_turn_of(state: object) -> Iterator[None]:
    """Mark the block as part of a turn of ``state``, so that nested requests of its model start no other."""
    token = _in_turn_of.set(state)
    try:
        yield
    finally:
        _in_turn_of.reset(token)


def is_inside_turn_of(state: object) -> bool:
    """Whether this code runs inside a turn of ``state``."""
    return _in_turn_of.get() is state


def each_inside(inside: Inside, chunks: Any) -> Generator[Any, None, None]:
    """Yield from the generator ``chunks``, which runs within ``inside()``; the consumer does not."""
    with closing(chunks):
        while True:
            with inside():
                chunk = next(chunks, None)
            if chunk is None:
                return
            yield chunk


async def each_inside_async(inside: Inside, chunks: Any) -> AsyncGenerator[Any, None]:
    """:func:`each_inside` for an async generator."""
    async with aclosing(chunks):
        while True:
            with inside():
                chunk = await anext(chunks, None)
            if chunk is None:
                return
            yield chunk
