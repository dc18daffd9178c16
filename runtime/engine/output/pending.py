"""A submitted request and the generation built from its output: shared by every way to generate."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Final, Unpack

from ...request.request import Request
from ...toolcache.tool_turn import ToolTurn
from ..engine import Engine
from ..engine_request import SubmitOptions
from .builder import GenerationBuilder
from .generation import Finished, Generation, GenerationEvent, LogprobsDelta
from .generation_span import GenerationSpan

LOGPROBS_AT_ONCE: Final = 16
"""Tokens of one :class:`LogprobsDelta`, after which a stream sends them, without text if there is none yet.
What has not been read for long is then sent in parts, between which an event loop can do other work."""


class PendingGeneration(AbstractContextManager["PendingGeneration"]):
    """One request in the engine. As a context manager it cancels the request on exit, if it has not ended."""

    def __init__(
        self,
        engine: Engine,
        request: Request,
        span: GenerationSpan | None = None,
        **options: Unpack[SubmitOptions],
    ) -> None:
        """Submit ``request``, whose listener gets the pieces for :meth:`feed`. ``span`` ends with it."""
        self._engine = engine
        self._span = span
        self._request = engine.submit(request, **options)
        self.output = self._request.output
        """The output of the request, once it has ended."""
        choice = request.tool_choice
        self._builder = GenerationBuilder(
            request.call_format,
            () if choice is None else choice.tools,
            held_to_grammar=request.held_formats,
            calls_only=choice is not None and choice.required,
            parallel=choice is None or choice.parallel,
            prediction=request.predicted_token_ids,
            truncated=request.truncated,
        )
        self._opening: list[GenerationEvent] = [] if request.truncated is None else [request.truncated]
        self._reported = 0

    def __exit__(self, *error: object) -> None:
        """Cancel the request."""
        self.cancel()

    def cancel(self) -> None:
        """End the request in any state; without effect if it has ended."""
        self._engine.cancel(self._request)
        if self._span is not None:
            self._span.give_up(self.output)

    def total_tokens(self) -> int | None:
        """Return the tokens of prompt and answer of an ended request; None if it has no whole answer."""
        if self.output.exception() is not None or self.output.result().stop_reason == "cancelled":
            return None
        return self.output.result().prompt_tokens + len(self.output.result().token_ids)

    def feed(self, pieces: Sequence[str | ToolTurn]) -> list[GenerationEvent]:
        """Return the events of the next pieces of the answer, which are a chunk to its reader."""
        if self._span is not None:
            self._span.received()
        events, self._opening = self._opening, []
        for piece in _joined(pieces):
            events += self._new_logprobs()
            events += self._builder.feed(piece)
        return events

    def finish(self) -> list[GenerationEvent]:
        """Return the last events, of which the last is :class:`Finished`. Waits for the output.

        Raises:
            AgentRTError: the request ended with an error.
        """
        events = self._builder.finish(self.output.result())
        finished = events[-1]
        if isinstance(finished, Finished):
            if finished.generation.finish_reason == "tool_calls":
                names = {call.name for call in finished.generation.tool_calls}
                self._engine.expect_return(self._request, names)
            if self._span is not None:
                self._span.finish(self.output.result(), finished.generation)
        return [*self._opening, *self._new_logprobs(), *events]

    def generation(self) -> Generation:
        """Return the whole answer, if no piece of it was fed. Waits for the output.

        Raises:
            AgentRTError: the request ended with an error.
        """
        self._builder.feed(self.output.result().text)
        finished = self.finish()[-1]
        assert isinstance(finished, Finished)
        return finished.generation

    def _new_logprobs(self) -> list[LogprobsDelta]:
        logprobs = self._request.logprobs
        if len(logprobs) == self._reported:
            return []
        deltas = [
            LogprobsDelta(tuple(logprobs[begin : begin + LOGPROBS_AT_ONCE]))
            for begin in range(self._reported, len(logprobs), LOGPROBS_AT_ONCE)
        ]
        self._reported += sum(len(delta.tokens) for delta in deltas)
        return deltas


def _joined(pieces: Sequence[str | ToolTurn]) -> list[str | ToolTurn]:
    """Return ``pieces`` with consecutive texts joined to one."""
    joined: list[str | ToolTurn] = []
    for piece in pieces:
        last = joined[-1] if joined else None
        if isinstance(piece, str) and isinstance(last, str):
            joined[-1] = last + piece
        else:
            joined.append(piece)
    return joined
