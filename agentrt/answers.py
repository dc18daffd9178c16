"""The main model's answer while it is being written, for predictors that read along."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable

import anyio

from .calls import ParserEvent
from .concurrency.threads import loop_caller


class AnswerStream:
    """What the main model has written so far in one turn, and what it goes on to write. Thread-safe.

    The turn puts events in from whichever thread the model answers in; each reader gets all of them, in
    order, also those from before it began to read.
    """

    def __init__(self) -> None:
        """Nothing is written yet."""
        self._lock = threading.Lock()
        self._events: list[ParserEvent] = []
        self._ended = False
        self._readers: list[Callable[[], None]] = []

    def put(self, event: ParserEvent) -> None:
        """Add what the model wrote; without effect once the answer has ended."""
        with self._lock:
            if self._ended:
                return
            self._events.append(event)
            readers = tuple(self._readers)
        for wake in readers:
            wake()

    def end(self) -> None:
        """Say that the answer is complete, or will never be."""
        with self._lock:
            self._ended = True
            readers = tuple(self._readers)
        for wake in readers:
            wake()

    async def events(self) -> AsyncIterator[ParserEvent]:
        """Yield each event, waiting for the next one until the answer ends."""
        news = anyio.Event()
        call_soon = loop_caller()

        def wake() -> None:
            call_soon(lambda: news.set())

        with self._lock:
            self._readers.append(wake)
        try:
            read = 0
            while True:
                # Renewed before looking, so that nothing put in between is slept through.
                news = anyio.Event()
                with self._lock:
                    fresh, ended = self._events[read:], self._ended
                for event in fresh:
                    yield event
                read += len(fresh)
                if not fresh:
                    if ended:
                        return
                    await news.wait()
        finally:
            with self._lock:
                self._readers.remove(wake)
