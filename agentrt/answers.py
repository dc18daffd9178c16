"""The main model's answer while it is being written, for predictors that read it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing

from .calls import ParserEvent
from .concurrency.handover import Handover


class AnswerStream:
    """The main model's answer in one turn, as far as it is written. Thread-safe.

    The turn puts events in from the thread in which the model answers. Each reader gets all of them, in
    order, also those from before it began to read.
    """

    def __init__(self) -> None:
        """Create the stream of an answer that has not begun."""
        self._events = Handover[ParserEvent]()

    def put(self, event: ParserEvent) -> None:
        """Append the next event; without effect once the answer has ended."""
        self._events.put(event)

    def end(self) -> None:
        """End the stream: the answer is complete, or will never be."""
        self._events.close()

    async def events(self) -> AsyncIterator[ParserEvent]:
        """Yield each event, waiting for the next one until the answer ends."""
        async with aclosing(self._events.batches()) as batches:
            async for batch in batches:
                for event in batch:
                    yield event
