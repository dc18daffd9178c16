"""What a generation is made of: the result, and the events of a streamed one."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from agentrt.calls import (
    CallFinished,
    ParserEvent,
    TextDelta,
    ToolCall,
    ToolCallFormat,
    ToolCallParser,
    tool_call_parser,
)

from ..engine.request import RequestOutput
from ..engine.sampler import TokenLogprobs
from ..toolcache.tool_turn import ToolTurn

FinishReason: TypeAlias = Literal["stop", "length", "tool_calls", "cancelled"]


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens a generation took."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0
    """Prompt tokens whose keys and values were already in memory."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds since the request was made."""

    queued_s: float
    """Until its first forward pass began, tokenizing included."""
    time_to_first_token_s: float
    total_s: float


@dataclass(frozen=True, slots=True)
class Generation:
    """One finished answer."""

    id: str
    text: str
    """The answer without the text of its tool calls."""
    tool_calls: tuple[ToolCall, ...]
    """The well-formed calls, in order, each with an id, but for those that were answered on the way."""
    finish_reason: FinishReason
    usage: Usage
    timing: Timing
    token_ids: tuple[int, ...]
    """Every sampled token, also the one that ended the answer."""
    answered_calls: tuple[CallAnswered, ...] = ()
    logprobs: tuple[TokenLogprobs, ...] = ()
    """One entry a sampled token, if they were asked for."""


@dataclass(frozen=True, slots=True)
class Finished:
    """The last event of a stream."""

    generation: Generation


@dataclass(frozen=True, slots=True)
class LogprobsDelta:
    """The probabilities of the next tokens, if they were asked for; those tokens' text comes behind it."""

    tokens: tuple[TokenLogprobs, ...]


@dataclass(frozen=True, slots=True)
class CallAnswered:
    """Call ``index`` was answered from the tool cache, and the model goes on with its ``output``.

    It comes behind the :class:`CallFinished` of all calls of the turn; the caller must not run it.
    """

    index: int
    call: ToolCall
    output: str


GenerationEvent: TypeAlias = ParserEvent | LogprobsDelta | CallAnswered | Finished


class GenerationBuilder:
    """Turns one answer's text into events, and its completion into a :class:`Generation`."""

    def __init__(self, call_format: ToolCallFormat | None) -> None:
        """``call_format`` None: no tools were offered, so that all text is text."""
        self._id = f"gen_{secrets.token_hex(12)}"
        self._call_format = call_format
        self._parser: ToolCallParser | None = None if call_format is None else tool_call_parser(call_format)
        self._text: list[str] = []
        self._calls: list[ToolCall] = []
        self._answered: list[CallAnswered] = []

    def feed(self, piece: str | ToolTurn) -> list[GenerationEvent]:
        """Take the next piece of text, or the turn of tools that was answered behind it."""
        if isinstance(piece, str):
            return self._note([TextDelta(piece)] if self._parser is None else self._parser.feed(piece))
        assert self._parser is not None
        assert self._call_format is not None
        events = self._note(self._parser.close())
        answered = [
            CallAnswered(index, call, output)
            for index, (call, output) in enumerate(
                zip(self._calls, piece.outputs, strict=True), len(self._answered)
            )
        ]
        self._answered += answered
        self._calls = []
        self._parser = tool_call_parser(self._call_format)
        return [*events, *answered]

    def finish(
        self, completion: RequestOutput, logprobs: Sequence[TokenLogprobs] = ()
    ) -> list[GenerationEvent]:
        """End the answer; the last event is :class:`Finished`."""
        events: list[GenerationEvent] = []
        if self._parser is not None:
            events += self._note(self._parser.close())
        reason: FinishReason = completion.stop_reason
        if reason == "stop" and self._calls:
            reason = "tool_calls"
        generation = Generation(
            id=self._id,
            text="".join(self._text),
            tool_calls=tuple(self._calls),
            finish_reason=reason,
            usage=Usage(completion.prompt_tokens, len(completion.token_ids), completion.cached_tokens),
            timing=Timing(completion.queued_s, completion.time_to_first_token_s, completion.total_s),
            token_ids=completion.token_ids,
            answered_calls=tuple(self._answered),
            logprobs=tuple(logprobs),
        )
        return [*events, Finished(generation)]

    def _note(self, events: list[ParserEvent]) -> list[GenerationEvent]:
        """Keep what the generation will hold; give each call its id, and a number in the whole answer."""
        noted: list[GenerationEvent] = []
        for event in events:
            if isinstance(event, TextDelta):
                self._text.append(event.text)
                noted.append(event)
                continue
            event = replace(event, index=event.index + len(self._answered))
            if isinstance(event, CallFinished):
                event = replace(event, call=replace(event.call, id=f"call_{secrets.token_hex(12)}"))
                self._calls.append(event.call)
            noted.append(event)
        return noted
