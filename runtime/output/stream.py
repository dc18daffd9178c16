"""One generation while it runs, as seen by the asyncio task that waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable

from ..engine.request import EngineRequest, OnText
from ..request.processor import Request
from ..toolcache.outputs import ToolOutputs
from .generation import GenerationBuilder, GenerationEvent, LogprobsDelta
from .mailbox import Mailbox


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
        self._mailbox = Mailbox(asyncio.get_running_loop())
        self._job = submit(request, self._mailbox.put, tool_outputs)
        self._job.completion.add_done_callback(lambda _: self._mailbox.close())
        self._builder = GenerationBuilder(request.call_format)

    async def events(self) -> AsyncGenerator[GenerationEvent, None]:
        """The answer piece by piece; the last event is :class:`Finished`. May be called once.

        Closing the iterator, or cancelling the task that waits on it, cancels the generation.
        """
        reported = 0
        try:
            while (piece := await self._mailbox.get()) is not None:
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

    def cancel(self) -> None:
        """End the generation wherever it is; without effect if it has ended."""
        self._cancel(self._job)

    def _logprobs(self, reported: int) -> list[LogprobsDelta]:
        fresh = self._job.sampler.logprobs[reported:]
        return [LogprobsDelta(tuple(fresh))] if fresh else []
