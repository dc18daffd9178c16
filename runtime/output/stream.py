"""One generation while it runs, as seen by the asyncio task that waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing

from agentrt.concurrency.handover import Handover

from ..engine.request import EngineRequest, OnText
from ..request.processor import Request
from ..toolcache.outputs import ToolOutputs
from ..toolcache.tool_turn import ToolTurn
from .generation import GenerationBuilder, GenerationEvent, LogprobsDelta


class GenerationStream:
    """A request that was accepted and is in the engine, from which one task reads events."""

    def __init__(
        self,
        request: Request,
        submit: Callable[[Request, OnText, ToolOutputs], EngineRequest],
        cancel: Callable[[EngineRequest], None],
        ended: Callable[[EngineRequest, GenerationEvent], None],
        tool_outputs: ToolOutputs,
    ) -> None:
        """Submit ``request`` at once; an event loop must be running. ``ended`` is told of the last event."""
        self._request = request
        self._ended = ended
        self.tool_outputs = tool_outputs
        """Where outputs of tools go that were run ahead of this answer's calls. A call whose output is there
        is answered in the engine (SpecTools §3.2); :class:`CallAnswered` tells of it."""
        self._cancel = cancel
        self._loop = asyncio.get_running_loop()
        self._pieces = Handover[str | ToolTurn]()
        self._job = submit(request, self._put, tool_outputs)
        self._job.completion.add_done_callback(lambda _: self._pieces.close())
        self._builder = GenerationBuilder(request.call_format)

    async def events(self) -> AsyncGenerator[GenerationEvent, None]:
        """The answer piece by piece; the last event is :class:`Finished`. May be called once.

        Closing the iterator, or cancelling the task that waits on it, cancels the generation.
        """
        reported = 0
        try:
            async with aclosing(self._pieces.batches()) as batches:
                async for batch in batches:
                    for piece in _joined(batch):
                        for tokens in self._logprobs(reported):
                            reported += len(tokens.tokens)
                            yield tokens
                        for event in self._builder.feed(piece):
                            yield event
            completion = self._job.completion.result()
            for tokens in self._logprobs(reported):
                yield tokens
            self._request.check_followed()
            rest = self._builder.finish(completion, self._job.sampler.logprobs)
            self._ended(self._job, rest[-1])
            for last in rest:
                yield last
        finally:
            self.tool_outputs.close()
            self.cancel()

    def _put(self, piece: str | ToolTurn) -> None:
        """Called on the engine thread; raises if the loop is closed, which ends the request."""
        if self._loop.is_closed():
            raise RuntimeError("the event loop of this stream is closed. Close the stream before the loop.")
        self._pieces.put(piece)

    def cancel(self) -> None:
        """End the generation wherever it is; without effect if it has ended."""
        self._cancel(self._job)

    def _logprobs(self, reported: int) -> list[LogprobsDelta]:
        fresh = self._job.sampler.logprobs[reported:]
        return [LogprobsDelta(tuple(fresh))] if fresh else []


def _joined(batch: Sequence[str | ToolTurn]) -> Iterator[str | ToolTurn]:
    """Yield the batch with consecutive texts joined to one."""
    text: list[str] = []
    for piece in batch:
        if isinstance(piece, str):
            text.append(piece)
            continue
        if text:
            yield "".join(text)
            text = []
        yield piece
    if text:
        yield "".join(text)
