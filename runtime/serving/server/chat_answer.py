"""Generations in OpenAI's format for chat completions, whole and in chunks."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentrt.calls import CallArgumentsDelta, CallFinished, CallStarted, TextDelta, ToolCall

from ...engine.logprobs import TokenLogprobs
from ...engine.output.generation import (
    CallAnswered,
    Finished,
    Generation,
    GenerationEvent,
    LogprobsDelta,
    Usage,
)
from ...engine.output.pending import LOGPROBS_AT_ONCE
from ...local.service import LocalRuntime
from ..http.ids import new_completion_id
from .logprobs import format_logprobs


@dataclass(frozen=True)
class CompletionMetadata:
    """The fields that every body and chunk of one response repeats."""

    runtime: LocalRuntime
    model: str
    """The model's name in this server."""
    service_tier: str
    forces_named_tool: bool
    """Whether the request names the function to call: OpenAI's finish reason is ``stop`` then."""
    has_functions: bool = False
    """Whether the request has ``functions``: a call is a ``function_call`` then, not a tool call."""
    id: str = field(default_factory=new_completion_id)
    created: int = field(default_factory=lambda: int(time.time()))

    def body(self, kind: str, choices: Sequence[Mapping[str, Any]], **fields: Any) -> dict[str, Any]:
        """Return a completion or a chunk with these choices; ``kind`` is its ``object``."""
        return {
            "id": self.id,
            "object": kind,
            "created": self.created,
            "model": self.model,
            "choices": choices,
            "service_tier": self.service_tier,
            "system_fingerprint": None,
            **fields,
        }

    def usage_chunk(self, generations: Sequence[Generation]) -> dict[str, Any]:
        """Return the last chunk of a stream that has the usage."""
        return self.body("chat.completion.chunk", [], usage=usage_body(generations))

    def finish_reason(self, generation: Generation) -> str:
        """Return OpenAI's finish reason of a choice."""
        reason = generation.finish_reason
        if reason != "tool_calls":
            return reason
        return "stop" if self.forces_named_tool else "function_call" if self.has_functions else reason

    def call_fields(self, calls: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return the fields of a message or a delta that has these tool calls."""
        return {"function_call": calls[0]["function"]} if self.has_functions else {"tool_calls": calls}

    def logprobs(self, tokens: Iterable[TokenLogprobs]) -> dict[str, Any]:
        """Return log probabilities in the format of a choice."""
        return {"content": format_logprobs(self.runtime, tokens), "refusal": None}


def completion_body(
    metadata: CompletionMetadata, generations: Sequence[Generation], include_logprobs: bool
) -> dict[str, Any]:
    """Return the body of a completion that is not streamed, with one choice per generation."""
    choices = []
    for index, generation in enumerate(generations):
        message: dict[str, Any] = {"role": "assistant", "content": generation.text or None, "refusal": None}
        if generation.tool_calls:
            message |= metadata.call_fields([_call_body(call) for call in generation.tool_calls])
        else:
            message["content"] = generation.text
        choices.append(
            {
                "index": index,
                "message": message,
                "logprobs": metadata.logprobs(generation.logprobs) if include_logprobs else None,
                "finish_reason": metadata.finish_reason(generation),
            }
        )
    return metadata.body("chat.completion", choices, usage=usage_body(generations))


def _call_body(call: ToolCall) -> dict[str, Any]:
    arguments = json.dumps(call.arguments, ensure_ascii=False)
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def usage_body(generations: Sequence[Generation]) -> dict[str, Any]:
    """Return the tokens of all choices together. They share one prompt, which counts once."""
    first: Usage = generations[0].usage
    completion = sum(generation.usage.completion_tokens for generation in generations)
    return {
        "prompt_tokens": first.prompt_tokens,
        "completion_tokens": completion,
        "total_tokens": first.prompt_tokens + completion,
        "prompt_tokens_details": {"cached_tokens": first.cached_tokens, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": 0,
            "audio_tokens": 0,
            "accepted_prediction_tokens": sum(
                generation.usage.accepted_prediction_tokens for generation in generations
            ),
            "rejected_prediction_tokens": sum(
                generation.usage.rejected_prediction_tokens for generation in generations
            ),
        },
    }


class ChoiceStream:
    """Turns one generation's events into the chunks of one choice.

    Where calls are constrained by a grammar, every call that begins is valid, and its parts are sent as they
    are generated. Otherwise a call is sent when it is complete.
    """

    def __init__(self, metadata: CompletionMetadata, index: int, *, include_usage: bool) -> None:
        """Create the stream of the choice ``index``.

        ``include_usage`` adds the field ``usage`` to each chunk, with no value: the response's last chunk has
        the usage.
        """
        self._metadata = metadata
        self._index = index
        self._progressive = metadata.runtime.constrains_calls
        self._extra_fields: dict[str, Any] = {"usage": None} if include_usage else {}
        self._in_call = False
        self._logprobs: list[TokenLogprobs] = []
        self.generation: Generation | None = None
        """The generation, once it has ended."""

    def opening_chunks(self) -> Iterator[dict[str, Any]]:
        """Yield the chunk that is sent before anything is generated."""
        yield self._chunk({"role": "assistant", "content": "", "refusal": None})

    def chunks(self, event: GenerationEvent) -> Iterator[dict[str, Any]]:
        """Yield the chunks for one event."""
        if isinstance(event, LogprobsDelta):
            self._logprobs += event.tokens
            if len(self._logprobs) >= LOGPROBS_AT_ONCE:
                yield self._chunk({"content": ""})
        elif isinstance(event, TextDelta):
            # A call that a stop text ends is repeated as text, but its first part was sent already as a call.
            if not self._in_call:
                yield self._chunk({"content": event.text})
        elif isinstance(event, CallStarted):
            if self._progressive:
                self._in_call = True
                yield self._new_call(event.index, event.id, event.name)
        elif isinstance(event, CallArgumentsDelta):
            if self._progressive:
                yield self._call(event.index, {"function": {"arguments": event.text}})
        elif isinstance(event, CallFinished):
            if not self._progressive:
                arguments = json.dumps(event.call.arguments, ensure_ascii=False)
                yield self._new_call(event.index, event.call.id, event.call.name, arguments)
            self._in_call = False
        elif isinstance(event, CallAnswered):
            # An extension: OpenAI's chat completions have no field for a call that the server answered.
            result = {
                "index": event.index,
                "tool_call_id": event.call.id,
                "name": event.call.name,
                "content": event.output,
            }
            yield self._chunk({"tool_results": [result]})
        elif isinstance(event, Finished):
            self.generation = event.generation
            yield self._chunk({}, self._metadata.finish_reason(event.generation))

    def _new_call(self, index: int, id: str | None, name: str, arguments: str = "") -> dict[str, Any]:
        function = {"name": name, "arguments": arguments}
        return self._call(index, {"id": id, "type": "function", "function": function})

    def _call(self, index: int, call: Mapping[str, Any]) -> dict[str, Any]:
        return self._chunk(self._metadata.call_fields([{"index": index, **call}]))

    def _chunk(self, delta: Mapping[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
        logprobs = None
        if self._logprobs:
            logprobs, self._logprobs = self._metadata.logprobs(self._logprobs), []
        choice = {
            "index": self._index,
            "delta": delta,
            "logprobs": logprobs,
            "finish_reason": finish_reason,
        }
        return self._metadata.body("chat.completion.chunk", [choice], **self._extra_fields)
