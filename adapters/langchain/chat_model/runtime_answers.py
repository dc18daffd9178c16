"""The answers of the local runtime to the requests of one chat model, with retries."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import aclosing, closing, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from anyio.from_thread import start_blocking_portal
from langchain_core.language_models.llms import create_base_retry_decorator

from agentrt import ToolCall
from agentrt.errors import OverloadedError
from agentrt.toolcache import FinishedCall, PredictedCall, ResultSource

from .answers import is_call_answered
from .requests import GenerationRequest

if TYPE_CHECKING:
    from agentrt.runtime import Generation, GenerationEvent, GenerationStream, LocalRuntime


Submitted = TypeVar("Submitted", bound=PredictedCall)


@dataclass(frozen=True)
class RuntimeAnswers:
    """Generates answers; what the runtime refuses because too many requests wait is sent again."""

    runtime: LocalRuntime
    max_retries: int
    run_manager: Any
    """LangChain's, which reports retries; None reports none."""
    source: ResultSource | None
    """Predicted calls, which the engine drafts, and speculated results; None for neither."""
    tool_cache: bool
    """Whether :meth:`stream` puts results into the engine's tool cache."""

    def generate(self, request: GenerationRequest) -> list[Generation]:
        """Return all answers."""
        if request.n == 1:
            if self.source is not None:
                return [_generation_of(list(self.stream(request)))]
            again = retrying(self.runtime.generate, self.max_retries, self.run_manager)
            return [again(request.messages, **request.options)]
        with start_blocking_portal() as portal:  # this thread may already run an event loop
            return portal.call(self.agenerate, request)

    async def agenerate(self, request: GenerationRequest) -> list[Generation]:
        """Return all answers without blocking the event loop."""

        async def generate(choice: GenerationRequest) -> Generation:
            return await self.runtime.agenerate(choice.messages, **choice.options)

        again = retrying(generate, self.max_retries, self.run_manager)
        if request.n == 1:
            if self.source is not None:
                return [_generation_of([event async for event in self.astream(request)])]
            return [await again(request)]
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(again(choice)) for choice in request.choices()]
        except ExceptionGroup as errors:  # all answers fail for one reason
            raise errors.exceptions[0] from None
        return [task.result() for task in tasks]

    def stream(self, request: GenerationRequest) -> Generator[GenerationEvent, None, None]:
        """Yield the events of one answer."""

        def start() -> Generator[GenerationEvent, None, None]:
            if self.source is not None:
                return _blocking(self._events(request))
            return self.runtime.iter_stream(request.messages, **request.options)

        return retrying_stream(start, self.max_retries, self.run_manager)

    def astream(self, request: GenerationRequest) -> AsyncGenerator[GenerationEvent, None]:
        """:meth:`stream` without blocking the event loop."""
        return aretrying_stream(lambda: self._events(request), self.max_retries, self.run_manager)

    async def _events(self, request: GenerationRequest) -> AsyncGenerator[GenerationEvent, None]:
        running = await self.runtime.start(request.messages, **request.options)
        source = self.source
        if source is not None and running.tool_outputs.takes_predicted_calls:
            source.take_predictions(_in_thread(functools.partial(_predict, running)))
        if source is not None and self.tool_cache:
            source.take_results(_in_thread(functools.partial(_put, running)))
        answered: list[tuple[ToolCall, str]] = []
        async with aclosing(running.events()) as events:
            async for event in events:
                if is_call_answered(event):
                    answered.append((event.call, event.output))
                elif answered:
                    assert source is not None
                    source.answered(answered)
                    answered = []
                yield event


def _blocking(events: AsyncGenerator[GenerationEvent, None]) -> Generator[GenerationEvent, None, None]:
    """Iterate over ``events`` in blocking code, on a separate event loop: this thread may already run one."""
    with start_blocking_portal() as portal:
        try:
            while (event := portal.call(anext, events, None)) is not None:
                yield event
        finally:
            portal.call(events.aclose)


def _generation_of(events: Sequence[GenerationEvent]) -> Generation:
    """Return the whole answer, which the last of its events has."""
    last: Any = events[-1]
    generation: Generation = last.generation
    return generation


def _predict(running: GenerationStream, predicted: PredictedCall) -> None:
    running.tool_outputs.predict(predicted.call.name, predicted.call.arguments)


def _put(running: GenerationStream, result: FinishedCall) -> None:
    call = result.call
    running.tool_outputs.put(call.name, call.arguments, result.text, result.keep_alive_s, reusable=False)


def _in_thread(submit: Callable[[Submitted], object]) -> Callable[[Submitted], None]:
    """Return a function that calls ``submit`` in a thread: making tokens of what is submitted takes time."""
    loop = asyncio.get_running_loop()

    def take(submitted: Submitted) -> None:
        def keep() -> None:
            try:
                submit(submitted)
            except Exception as error:  # noqa: BLE001 - reported; the turn goes on without it
                submitted.refused(error)

        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(loop.run_in_executor, None, keep)

    return take


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
