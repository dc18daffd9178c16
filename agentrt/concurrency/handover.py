"""Streams of items from any thread to event loops and threads, without blocking a loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from concurrent.futures import Future
from contextlib import aclosing, closing, contextmanager
from typing import Generic, TypeVar

from .threads import loop_caller, start_in_thread

T = TypeVar("T")


class Handover(Generic[T]):
    """A stream that any thread may write and any number of tasks and threads may read. Thread-safe.

    Each reader gets every item in order, also those from before it began to read, and then the error with
    which the stream was closed, if any. Items come in batches: an event loop is woken once for all items that
    were put since its reader last ran, not once an item.
    """

    def __init__(self) -> None:
        """Create an open, empty stream."""
        self._lock = threading.Lock()
        self._items: list[T] = []
        self.closed = False
        """Whether the stream has ended; readers may not have read all of it yet."""
        self._error: BaseException | None = None
        self._wakers: list[Callable[[], object]] = []

    def put(self, item: T) -> None:
        """Append an item; without effect once the stream is closed."""
        with self._lock:
            if self.closed:
                return
            self._items.append(item)
            wakers = tuple(self._wakers)
        for wake in wakers:
            wake()

    def close(self, error: BaseException | None = None) -> None:
        """End the stream; readers raise ``error`` after the last item. Only the first call has an effect."""
        with self._lock:
            if self.closed:
                return
            self.closed = True
            self._error = error
            wakers = tuple(self._wakers)
        for wake in wakers:
            wake()

    async def batches(self) -> AsyncGenerator[list[T], None]:
        """Yield all items that have come since the last batch, at least one each time."""
        arrived = _LoopSignal()
        with self._woken(arrived.set):
            read = 0
            while True:
                batch, closed = self._since(read)
                read += len(batch)
                if batch:
                    yield batch
                elif closed:
                    break
                else:
                    await arrived.wait()
        if self._error is not None:
            raise self._error

    def batches_blocking(self) -> Generator[list[T], None, None]:
        """:meth:`batches` for code without an event loop."""
        arrived = threading.Event()
        with self._woken(arrived.set):
            read = 0
            while True:
                arrived.clear()  # before looking, so that what comes in between is not slept through
                batch, closed = self._since(read)
                read += len(batch)
                if batch:
                    yield batch
                elif closed:
                    break
                else:
                    arrived.wait()
        if self._error is not None:
            raise self._error

    @contextmanager
    def _woken(self, wake: Callable[[], object]) -> Iterator[None]:
        with self._lock:
            self._wakers.append(wake)
        try:
            yield
        finally:
            with self._lock:
                self._wakers.remove(wake)

    def _since(self, read: int) -> tuple[list[T], bool]:
        with self._lock:
            return self._items[read:], self.closed


class _LoopSignal:
    """Wakes one task of the running loop from any thread; many calls of :meth:`set` are one wake-up."""

    def __init__(self) -> None:
        self._call_soon = loop_caller()
        self._event = asyncio.Event()
        self._pending = False

    def set(self) -> None:
        if not self._pending:
            self._pending = True
            self._call_soon(self._wake)

    def _wake(self) -> None:
        # Cleared before the task runs, so that what comes from now on wakes it again.
        self._pending = False
        self._event.set()

    async def wait(self) -> None:
        """Wait until it is set, or return at once if it was set since the last wait."""
        await self._event.wait()
        self._event.clear()


async def produced_elsewhere(start: Callable[[Callable[[T], None]], Future[None]]) -> AsyncGenerator[T, None]:
    """Yield the items of a producer in another thread or loop, and raise the error it ends with.

    ``start(put)`` starts the producer and returns the future of its end. ``put`` may be called from any
    thread and has no effect once the iteration is left. Leaving the iteration cancels the future if it can
    be cancelled.
    """
    items = Handover[T]()
    ended = start(items.put)
    ended.add_done_callback(lambda _: items.close())
    try:
        async with aclosing(items.batches()) as batches:
            async for batch in batches:
                for item in batch:
                    yield item
    finally:
        items.close()
        ended.cancel()
    ended.result()


async def produced_in_thread(
    make: Callable[[], Generator[T, None, None]], *, name: str
) -> AsyncGenerator[T, None]:
    """Yield the items of a blocking generator that is made and run in a thread of its own.

    A thread cannot be stopped: once the iteration is left, the generator is closed when it yields next.
    """
    left = threading.Event()

    def start(put: Callable[[T], None]) -> Future[None]:
        def work() -> None:
            with closing(make()) as items:
                for item in items:
                    if left.is_set():
                        return
                    put(item)

        return start_in_thread(work, name=name)

    try:
        async with aclosing(produced_elsewhere(start)) as items:
            async for item in items:
                yield item
    finally:
        left.set()
