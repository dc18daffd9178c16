"""The result of a generation, and the events of a streamed one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from agentrt.calls import ParserEvent, ToolCall

from ...request.window import PromptTruncated
from ..logprobs import TokenLogprobs

FinishReason: TypeAlias = Literal["stop", "length", "tool_calls", "cancelled"]


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts of a generation."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0
    """Prompt tokens whose keys and values were already in memory."""
    accepted_prediction_tokens: int = 0
    """Tokens of the request's ``prediction`` that the answer has."""
    rejected_prediction_tokens: int = 0
    """Those that it does not have."""
    truncated_messages: int = 0
    """Messages that were left out of the prompt: see :attr:`GenerationOptions.truncation`."""
    truncated_tokens: int = 0
    """About how many tokens these have."""

    @property
    def truncation_details(self) -> dict[str, int]:
        """What was left out, by the names of the fields, as interfaces say it; empty if nothing was."""
        if not self.truncated_messages:
            return {}
        return {"truncated_messages": self.truncated_messages, "truncated_tokens": self.truncated_tokens}

    @property
    def conversation_tokens(self) -> int:
        """Tokens of the conversation with the answer, about as many where messages were left out."""
        return self.truncated_tokens + self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds since the request was made."""

    queued_s: float
    """Until its first forward pass began, including tokenization."""
    time_to_first_token_s: float
    total_s: float


@dataclass(frozen=True, slots=True)
class CallAnswered:
    """Call ``index`` was answered from the tool cache, and the model continues with its ``output``.

    This event follows the :class:`CallFinished` of all calls of the turn. The caller must not run the call.
    """

    index: int
    call: ToolCall
    output: str


@dataclass(frozen=True, slots=True)
class Generation:
    """One finished answer."""

    id: str
    """Id of the request, which traces and errors name."""
    text: str
    """The answer without the text of its tool calls, also of one that was cut off."""
    tool_calls: tuple[ToolCall, ...]
    """The well-formed calls that the caller has to run, in order, each with an id."""
    finish_reason: FinishReason
    usage: Usage
    timing: Timing
    token_ids: tuple[int, ...]
    """Every sampled token, including the one that ended the answer."""
    answered_calls: tuple[CallAnswered, ...] = ()
    """The calls that were answered from the tool cache."""
    repaired_calls: int = 0
    """Calls whose name or arguments were repaired: see :class:`agentrt.calls.ToolDefinitions`."""
    logprobs: tuple[TokenLogprobs, ...] = ()
    """One entry per sampled token, if the request asks for them."""
    stopped_by: str | None = None
    """The text of the request's ``stop`` that ended the answer, if one did."""


@dataclass(frozen=True, slots=True)
class Finished:
    """The last event of a stream."""

    generation: Generation


@dataclass(frozen=True, slots=True)
class LogprobsDelta:
    """The log probabilities of the next tokens, if the request asks for them; their text follows."""

    tokens: tuple[TokenLogprobs, ...]


GenerationEvent: TypeAlias = PromptTruncated | ParserEvent | LogprobsDelta | CallAnswered | Finished
