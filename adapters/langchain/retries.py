"""Retries of requests that the runtime refuses because too many wait, as ``max_retries`` says."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import aclosing, closing
from typing import Any, TypeVar

from langchain_core.language_models.llms import create_base_retry_decorator

from agentrt.errors import OverloadedError

Call = TypeVar("Call", bound=Callable[..., Any])
T = TypeVar("T")


def retrying(call: Call, max_retries: int, run_manager: Any) -> Call:
    """Return ``call``, blocking or async, such that it is repeated up to ``max_retries`` times.

    LangChain's waits are between: 4 seconds, then longer ones up to 10. ``run_manager`` reports each to the
    user's callbacks (``on_retry``); None reports none.
    """
    decorator = create_base_retry_decorator(
        [OverloadedError], max_retries=max_retries + 1, run_manager=run_manager
    )
    retried: Call = decorator(call)
    return retried


def retrying_stream(
    start: Callable[[], Generator[T, None, None]], max_retries: int, run_manager: Any
) -> Generator[T, None, None]:
    """Yield what ``start()`` yields, which is at least one item; it is started again until its first item."""

    def begin() -> tuple[T, Generator[T, None, None]]:
        items = start()
        return next(items), items

    first, items = retrying(begin, max_retries, run_manager)()
    with closing(items):
        yield first
        yield from items


async def aretrying_stream(
    start: Callable[[], AsyncGenerator[T, None]], max_retries: int, run_manager: Any
) -> AsyncGenerator[T, None]:
    """:func:`retrying_stream` for an async generator."""

    async def begin() -> tuple[T, AsyncGenerator[T, None]]:
        items = start()
        return await anext(items), items

    first, items = await retrying(begin, max_retries, run_manager)()
    async with aclosing(items):
        yield first
        async for item in items:
            yield item
