"""Builds a generation and its events from the text of one answer."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from agentrt.calls import (
    CallFinished,
    CallStarted,
    MessageParser,
    ParserEvent,
    TextDelta,
    ToolCall,
    ToolCallFormat,
    ToolDefinitions,
)

from ...drafting.prediction import count_accepted
from ...request.window import PromptTruncated
from ...toolcache.tool_turn import ToolTurn
from ..engine_request import RequestOutput
from .generation import CallAnswered, Finished, FinishReason, Generation, GenerationEvent, Timing, Usage


class GenerationBuilder:
    """Parses the text of one answer into events, and its output into a :class:`Generation`."""

    def __init__(
        self,
        call_format: ToolCallFormat | None,
        tools: Sequence[Mapping[str, Any]] = (),
        *,
        held_to_grammar: Collection[ToolCallFormat] = (),
        calls_only: bool = False,
        parallel: bool = True,
        prediction: Sequence[int] = (),
        truncated: PromptTruncated | None = None,
    ) -> None:
        """``call_format`` is the format of calls of ``tools``; None if no tools are offered.

        A grammar makes the calls of the formats ``held_to_grammar`` valid. ``calls_only`` says that
        the answer must call a tool: it has no text, and what is left of an unfinished call is none. Unless
        ``parallel``, it has at most one call.
        ``prediction`` are the tokens that the caller predicted, ``truncated`` is what the prompt lacks.
        """
        self._call_format = call_format
        self._held_to_grammar = held_to_grammar
        self._calls_only = calls_only
        self._parallel = parallel
        self._prediction = prediction
        self._truncated = truncated or PromptTruncated(0, 0)
        self._tools = ToolDefinitions(tools, trusted=call_format)
        self._parser = self._new_parser()
        self._text: list[str] = []
        self._calls: list[ToolCall] = []
        self._answered: list[CallAnswered] = []
        self._call_id = ""

    def feed(self, piece: str | ToolTurn) -> list[GenerationEvent]:
        """Return the events of the next piece of text, or of the tool turn answered after it."""
        if isinstance(piece, ToolTurn):
            return self._end_turn(piece)
        return self._record([TextDelta(piece)] if self._parser is None else self._parser.feed(piece))

    def finish(self, output: RequestOutput) -> list[GenerationEvent]:
        """End the answer; the last event is :class:`Finished`."""
        reason: FinishReason = output.stop_reason
        events = [] if self._parser is None else self._record(self._parser.close(cut=reason != "stop"))
        if reason == "stop" and self._calls:
            reason = "tool_calls"
        accepted = count_accepted(self._prediction, output.token_ids) if self._prediction else 0
        generation = Generation(
            id=output.request_id,
            text="".join(self._text),
            tool_calls=tuple(self._calls),
            finish_reason=reason,
            usage=Usage(
                output.prompt_tokens,
                len(output.token_ids),
                output.cached_tokens,
                accepted_prediction_tokens=accepted,
                rejected_prediction_tokens=len(self._prediction) - accepted,
                truncated_messages=self._truncated.messages,
                truncated_tokens=self._truncated.tokens,
            ),
            timing=Timing(output.queued_s, output.time_to_first_token_s, output.total_s),
            token_ids=output.token_ids,
            answered_calls=tuple(self._answered),
            repaired_calls=self._tools.repaired,
            logprobs=output.logprobs,
            stopped_by=output.stopped_by,
        )
        return [*events, Finished(generation)]

    def _end_turn(self, turn: ToolTurn) -> list[GenerationEvent]:
        assert self._parser is not None
        events = self._record(self._parser.close())
        answered = [
            CallAnswered(index, call, output)
            for index, (call, output) in enumerate(
                zip(self._calls, turn.outputs, strict=True), len(self._answered)
            )
        ]
        self._answered += answered
        self._calls = []
        self._parser = self._new_parser()
        return [*events, *answered]

    def _new_parser(self) -> MessageParser | None:
        if self._call_format is None:
            return None
        return MessageParser(
            self._call_format,
            self._tools,
            held_to_grammar=self._held_to_grammar,
            parallel=self._parallel,
        )

    def _record(self, events: list[ParserEvent]) -> list[GenerationEvent]:
        """Keep text and calls for the generation; give each call an id and its index in the whole answer."""
        recorded: list[GenerationEvent] = []
        for event in events:
            if isinstance(event, TextDelta):
                if self._calls_only:
                    continue
                self._text.append(event.text)
                recorded.append(event)
                continue
            event = replace(event, index=event.index + len(self._answered))
            if isinstance(event, CallStarted):
                self._call_id = f"call_{secrets.token_hex(12)}"
                event = replace(event, id=self._call_id)
            elif isinstance(event, CallFinished):
                event = replace(event, call=replace(event.call, id=self._call_id))
                self._calls.append(event.call)
            recorded.append(event)
        return recorded
