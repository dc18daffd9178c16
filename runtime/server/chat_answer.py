"""Generations as OpenAI's chat completions, whole and in chunks."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentrt.calls import CallArgumentsDelta, CallFinished, CallStarted, TextDelta

from ..engine.logprobs import TokenLogprobs
from ..http.ids import new_completion_id
from ..output.generation import CallAnswered, Finished, Generation, GenerationEvent, LogprobsDelta, Usage
from ..service import LocalRuntime
from .logprobs import described


@dataclass(frozen=True)
class Envelope:
    """What surrounds every answer to one request."""

    runtime: LocalRuntime
    service_tier: str
    named_call: bool
    """The request named the function to call: OpenAI's finish reason is ``stop`` then."""
    id: str = field(default_factory=new_completion_id)
    created: int = field(default_factory=lambda: int(time.time()))

    def wrap(self, kind: str, choices: Sequence[Mapping[str, Any]], **more: Any) -> dict[str, Any]:
        """A completion or a chunk."""
        return {
            "id": self.id,
            "object": kind,
            "created": self.created,
            "model": self.runtime.model_id,
            "choices": choices,
            "service_tier": self.service_tier,
            "system_fingerprint": None,
            **more,
        }

    def finish_reason(self, generation: Generation) -> str:
        """Why a choice ended, in OpenAI's words."""
        reason = generation.finish_reason
        return "stop" if self.named_call and reason == "tool_calls" else reason

    def logprobs(self, tokens: Iterable[TokenLogprobs]) -> dict[str, Any]:
        """Probabilities in OpenAI's shape."""

        return {"content": described(self.runtime, tokens), "refusal": None}


def whole(envelope: Envelope, generations: Sequence[Generation], with_logprobs: bool) -> dict[str, Any]:
    """The body of a completion that is not streamed; one choice a generation."""
    choices = []
    for index, generation in enumerate(generations):
        message: dict[str, Any] = {"role": "assistant", "content": generation.text or None, "refusal": None}
        if generation.tool_calls:
            message["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {
                        "name": call.name,
                        "arguments": json.dumps(call.arguments, ensure_ascii=False),
                    },
                }
                for call in generation.tool_calls
            ]
        else:
            message["content"] = generation.text
        choices.append(
            {
                "index": index,
                "message": message,
                "logprobs": envelope.logprobs(generation.logprobs) if with_logprobs else None,
                "finish_reason": envelope.finish_reason(generation),
            }
        )
    return envelope.wrap("chat.completion", choices, usage=usage(generations))


def usage(generations: Sequence[Generation]) -> dict[str, Any]:
    """What the choices took together; they share one prompt."""
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
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }


class ChoiceStream:
    """Turns one generation's events into the chunks of one choice."""

    def __init__(self, envelope: Envelope, index: int, *, with_usage: bool) -> None:
        """Calls are sent as they are written where every begun call is a valid one, else when complete."""
        self._envelope = envelope
        self._index = index
        self._progressive = envelope.runtime.constrains_calls
        self._more: dict[str, Any] = {"usage": None} if with_usage else {}
        self._begun: int | None = None
        self._call_ids: dict[int, str] = {}
        self._logprobs: list[TokenLogprobs] = []
        self.generation: Generation | None = None
        """What was streamed, once it has ended."""

    def opening(self) -> dict[str, Any]:
        """The chunk that comes before anything is generated."""
        return self._chunk({"role": "assistant", "content": "", "refusal": None})

    def chunks(self, event: GenerationEvent) -> Iterator[dict[str, Any]]:
        """The chunks of one event."""
        if isinstance(event, LogprobsDelta):
            self._logprobs += event.tokens
        elif isinstance(event, TextDelta):
            # A call that was cut off comes back as text; what was sent of it cannot be taken back.
            if self._begun is None:
                yield self._chunk({"content": event.text})
        elif isinstance(event, CallStarted):
            if self._progressive:
                self._begun = event.index
                yield self._new_call(event.index, event.name)
        elif isinstance(event, CallArgumentsDelta):
            if self._progressive:
                yield self._call(event.index, {"function": {"arguments": event.text}})
        elif isinstance(event, CallFinished):
            if not self._progressive:
                arguments = json.dumps(event.call.arguments, ensure_ascii=False)
                yield self._new_call(event.index, event.call.name, arguments)
            self._begun = None
        elif isinstance(event, CallAnswered):
            # agentrt's own: OpenAI's completions have no place for a call that needs no client.
            result = {
                "index": event.index,
                "tool_call_id": self._call_ids[event.index],
                "name": event.call.name,
                "content": event.output,
            }
            yield self._chunk({"tool_results": [result]})
        elif isinstance(event, Finished):
            self.generation = event.generation
            yield self._chunk({}, self._envelope.finish_reason(event.generation))

    def _new_call(self, index: int, name: str, arguments: str = "") -> dict[str, Any]:
        id = self._call_ids[index] = f"call_{secrets.token_hex(12)}"
        function = {"name": name, "arguments": arguments}
        return self._call(index, {"id": id, "type": "function", "function": function})

    def _call(self, index: int, call: Mapping[str, Any]) -> dict[str, Any]:
        return self._chunk({"tool_calls": [{"index": index, **call}]})

    def _chunk(self, delta: Mapping[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
        logprobs = None
        if self._logprobs:
            logprobs, self._logprobs = self._envelope.logprobs(self._logprobs), []
        choice = {
            "index": self._index,
            "delta": delta,
            "logprobs": logprobs,
            "finish_reason": finish_reason,
        }
        return self._envelope.wrap("chat.completion.chunk", [choice], **self._more)
