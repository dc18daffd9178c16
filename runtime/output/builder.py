"""Builds a generation and its events from the text of one answer."""

from __future__ import annotations

import secrets
from dataclasses import replace

from agentrt.calls import (
    CallFinished,
    ParserEvent,
    TextDelta,
    ToolCall,
    ToolCallFormat,
    ToolCallParser,
    tool_call_parser,
)

from ..engine.engine_request import RequestOutput
from ..toolcache.tool_turn import ToolTurn
from .generation import CallAnswered, Finished, FinishReason, Generation, GenerationEvent, Timing, Usage


class GenerationBuilder:
    """Parses the text of one answer into events, and its output into a :class:`Generation`."""

    def __init__(self, call_format: ToolCallFormat | None) -> None:
        """``call_format`` is the format of the tool calls; None if no tools are offered."""
        self._call_format = call_format
        self._parser: ToolCallParser | None = None if call_format is None else tool_call_parser(call_format)
        self._text: list[str] = []
        self._calls: list[ToolCall] = []
        self._answered: list[CallAnswered] = []

    def feed(self, piece: str | ToolTurn) -> list[GenerationEvent]:
        """Return the events of the next piece of text, or of the tool turn answered after it."""
        if isinstance(piece, ToolTurn):
            return self._end_turn(piece)
        return self._record([TextDelta(piece)] if self._parser is None else self._parser.feed(piece))

    def finish(self, output: RequestOutput) -> list[GenerationEvent]:
        """End the answer; the last event is :class:`Finished`."""
        events = [] if self._parser is None else self._record(self._parser.close())
        reason: FinishReason = output.stop_reason
        if reason == "stop" and self._calls:
            reason = "tool_calls"
        generation = Generation(
            id=output.request_id,
            text="".join(self._text),
            tool_calls=tuple(self._calls),
            finish_reason=reason,
            usage=Usage(output.prompt_tokens, len(output.token_ids), output.cached_tokens),
            timing=Timing(output.queued_s, output.time_to_first_token_s, output.total_s),
            token_ids=output.token_ids,
            answered_calls=tuple(self._answered),
            logprobs=output.logprobs,
        )
        return [*events, Finished(generation)]

    def _end_turn(self, turn: ToolTurn) -> list[GenerationEvent]:
        assert self._parser is not None
        assert self._call_format is not None
        events = self._record(self._parser.close())
        answered = [
            CallAnswered(index, call, output)
            for index, (call, output) in enumerate(
                zip(self._calls, turn.outputs, strict=True), len(self._answered)
            )
        ]
        self._answered += answered
        self._calls = []
        self._parser = tool_call_parser(self._call_format)
        return [*events, *answered]

    def _record(self, events: list[ParserEvent]) -> list[GenerationEvent]:
        """Keep text and calls for the generation; give each call an id and its index in the whole answer."""
        recorded: list[GenerationEvent] = []
        for event in events:
            if isinstance(event, TextDelta):
                self._text.append(event.text)
                recorded.append(event)
                continue
            event = replace(event, index=event.index + len(self._answered))
            if isinstance(event, CallFinished):
                event = replace(event, call=replace(event.call, id=f"call_{secrets.token_hex(12)}"))
                self._calls.append(event.call)
            recorded.append(event)
        return recorded
