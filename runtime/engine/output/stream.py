"""A generation in progress, as the asyncio task that reads its events sees it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from agentrt.concurrency.handover import Handover

from ...toolcache.outputs import ToolOutputs
from ...toolcache.tool_turn import ToolTurn
from ..engine_request import OutputListener
from .generation import GenerationEvent
from .pending import PendingGeneration


class GenerationStream:
    """A request that was accepted and is in the engine, whose events one task reads."""

    def __init__(
        self,
        submit: Callable[[OutputListener], PendingGeneration],
        prompt_tokens: int,
        tool_outputs: ToolOutputs,
        owner: object,
    ) -> None:
        """Submit the request, whose prompt has ``prompt_tokens``; an event loop must be running.

        ``owner``, the runtime, closes when nothing refers to it any more: the stream keeps it open.
        """
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._pieces = Handover[str | ToolTurn]()
        self._pending = submit(self._put)
        self._pending.output.add_done_callback(lambda _: self._pieces.close())
        self.prompt_tokens = prompt_tokens
        """Tokens of the prompt, as it was accepted."""
        self.tool_outputs = tool_outputs
        """The cache of tool outputs for this answer. The engine answers the calls whose outputs it holds
        (SpecTools §3.2); :class:`CallAnswered` events report them."""

    async def events(self) -> AsyncGenerator[GenerationEvent, None]:
        """Yield the events of the answer; the last is :class:`Finished`. May be called once.

        Closing the iterator, or cancelling the task that waits for it, cancels the generation.
        """
        try:
            async with aclosing(self._pieces.batches()) as batches:
                async for batch in batches:
                    for event in self._pending.feed(batch):
                        yield event
            for event in self._pending.finish():
                yield event
        finally:
            self.tool_outputs.close()
            self.cancel()

    def cancel(self) -> None:
        """End the generation in any state; without effect if it has ended."""
        self._pending.cancel()

    def _put(self, piece: str | ToolTurn) -> None:
        """Called on the engine thread; raises if the loop is closed, which ends the request."""
        if self._loop.is_closed():
            raise RuntimeError("the event loop of this stream is closed. Close the stream before the loop.")
        self._pieces.put(piece)
