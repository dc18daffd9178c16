"""Answers in OpenAI's format for chat completions, whole and in chunks; what completions share with it."""

from __future__ import annotations

import json
import time
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

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
from ..http.open_responses import new_completion_id
from .answers import AnswerWriter, format_logprobs
from .chat_request import ChatRequest
from .common_request import ChoicesRequest


class ChoicesWriter(AnswerWriter):
    """Writes the answers as the choices of one completion, numbered across all prompts."""

    end = "data: [DONE]\n\n"
    kind: ClassVar[str]
    chunk_kind: ClassVar[str]
    """The ``object`` of a completion, and of a chunk of one."""

    def __init__(self, model: str, id: str, request: ChoicesRequest) -> None:
        """``id`` is that of the response to ``request``."""
        super().__init__(model, stream=bool(request.stream), id=id, answers=request.n or 1)
        self._created = int(time.time())
        self._includes_usage = request.includes_usage
        self._fields: dict[str, Any] = {}
        """Further fields of the completion and of each chunk."""
        self._pending_logprobs: defaultdict[int, list[TokenLogprobs]] = defaultdict(list)

    def closing(self, generations: Sequence[Generation]) -> Iterable[Mapping[str, Any]]:
        """Return the chunk that has the usage, if the client wants one."""
        if not self._includes_usage:
            return ()
        return (self._completion(self.chunk_kind, [], usage=self.usage(generations)),)

    def body(self, generations: Sequence[Generation]) -> dict[str, Any]:
        """Return the completion with one choice for each generation."""
        choices = [self.choice(index, each) for index, each in enumerate(generations)]
        return self._completion(self.kind, choices, usage=self.usage(generations))

    def usage(self, generations: Sequence[Generation]) -> dict[str, Any]:
        """Return the tokens of all choices together. Those of one prompt share it, so that it counts once."""
        return sum_usage(
            usage_body(generations[first : first + self.answers])
            for first in range(0, len(generations), self.answers)
        )

    @abstractmethod
    def choice(self, index: int, generation: Generation) -> dict[str, Any]:
        """Return a choice of a completion that is not streamed."""

    @abstractmethod
    def logprobs(self, index: int, tokens: Iterable[TokenLogprobs]) -> dict[str, Any]:
        """Return the log probabilities of the next tokens of a choice."""

    def _chunk(self, index: int, part: Mapping[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
        """Return a chunk with a part of one choice, and the log probabilities that have come before it."""
        pending = self._pending_logprobs.pop(index, None)
        logprobs = self.logprobs(index, pending) if pending else None
        choice = {"index": index, **part, "logprobs": logprobs, "finish_reason": finish_reason}
        usage = {"usage": None} if self._includes_usage else {}  # the last chunk has its value
        return self._completion(self.chunk_kind, [choice], **usage)

    def _add_logprobs(self, index: int, tokens: Iterable[TokenLogprobs]) -> bool:
        """Keep log probabilities for the next chunk; return whether they are enough for one."""
        self._pending_logprobs[index] += tokens
        return len(self._pending_logprobs[index]) >= LOGPROBS_AT_ONCE

    def _completion(self, kind: str, choices: Sequence[Mapping[str, Any]], **fields: Any) -> dict[str, Any]:
        return {
            "id": self.id,
            "object": kind,
            "created": self._created,
            "model": self.model,
            "choices": choices,
            **self._fields,
            "system_fingerprint": None,
            **fields,
        }


class ChatWriter(ChoicesWriter):
    """Writes chat completions.

    Where calls are constrained by a grammar, every call that begins is valid, and its parts are sent as they
    are generated. Otherwise a call is sent when it is complete.
    """

    kind = "chat.completion"
    chunk_kind = "chat.completion.chunk"

    def __init__(self, model: str, request: ChatRequest) -> None:
        """Create the writer of the response to ``request``."""
        super().__init__(model, new_completion_id(), request)
        self._request = request
        self._fields = {"service_tier": request.served_tier}
        self._in_call: set[int] = set()
        """The choices that are within a call."""

    def field_name(self, field: str, prompt: int) -> str:
        """Return the request's name for a field that an error of the runtime names."""
        return self._request.field_name(field)

    def opening(self) -> Iterator[dict[str, Any]]:
        """Yield the chunk of each choice that is sent before anything is generated."""
        for index in range(self.answers):
            yield self._delta(index, {"role": "assistant", "content": "", "refusal": None})

    def chunks(self, index: int, event: GenerationEvent) -> Iterator[dict[str, Any]]:
        """Yield the chunks for one event."""
        progressive = self.runtime.constrains_calls
        if isinstance(event, LogprobsDelta):
            if self._add_logprobs(index, event.tokens):
                yield self._delta(index, {"content": ""})
        elif isinstance(event, TextDelta):
            # A call that a stop text ends is repeated as text, but its first part was sent already as a call.
            if index not in self._in_call:
                yield self._delta(index, {"content": event.text})
        elif isinstance(event, CallStarted):
            if progressive:
                self._in_call.add(index)
                yield self._call(index, event.index, _call_body(event.id, event.name, ""))
        elif isinstance(event, CallArgumentsDelta):
            if progressive:
                yield self._call(index, event.index, {"function": {"arguments": event.text}})
        elif isinstance(event, CallFinished):
            if not progressive:
                yield self._call(index, event.index, _whole_call(event.call))
            self._in_call.discard(index)
        elif isinstance(event, CallAnswered):
            # An extension: OpenAI's chat completions have no field for a call that the server answered.
            result = {
                "index": event.index,
                "tool_call_id": event.call.id,
                "name": event.call.name,
                "content": event.output,
            }
            yield self._delta(index, {"tool_results": [result]})
        elif isinstance(event, Finished):
            yield self._delta(index, {}, self._finish_reason(event.generation))

    def choice(self, index: int, generation: Generation) -> dict[str, Any]:
        """Return a choice of a completion that is not streamed."""
        message: dict[str, Any] = {"role": "assistant", "content": generation.text, "refusal": None}
        if generation.tool_calls:
            message["content"] = generation.text or None
            message |= self._call_fields([_whole_call(call) for call in generation.tool_calls])
        logprobs = self.logprobs(index, generation.logprobs) if self._request.logprobs else None
        reason = self._finish_reason(generation)
        return {"index": index, "message": message, "logprobs": logprobs, "finish_reason": reason}

    def logprobs(self, index: int, tokens: Iterable[TokenLogprobs]) -> dict[str, Any]:
        """Return the log probabilities of the next tokens of a choice."""
        return {"content": format_logprobs(self.runtime, tokens), "refusal": None}

    def _finish_reason(self, generation: Generation) -> str:
        """Return OpenAI's finish reason: ``stop`` where the request names the function to call."""
        reason = generation.finish_reason
        if reason != "tool_calls":
            return reason
        if self._request.forces_named_tool:
            return "stop"
        return reason if self._request.functions is None else "function_call"

    def _call_fields(self, calls: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return the fields of a message or a delta that has these calls, perhaps in the older form."""
        if self._request.functions is None:
            return {"tool_calls": calls}
        return {"function_call": calls[0]["function"]}

    def _call(self, index: int, number: int, call: Mapping[str, Any]) -> dict[str, Any]:
        return self._delta(index, self._call_fields([{"index": number, **call}]))

    def _delta(
        self, index: int, delta: Mapping[str, Any], finish_reason: str | None = None
    ) -> dict[str, Any]:
        return self._chunk(index, {"delta": delta}, finish_reason)


def _call_body(id: str | None, name: str, arguments: str) -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def _whole_call(call: ToolCall) -> dict[str, Any]:
    return _call_body(call.id, call.name, json.dumps(call.arguments, ensure_ascii=False))


def usage_body(generations: Sequence[Generation]) -> dict[str, Any]:
    """Return the tokens of answers to one prompt, which counts once."""
    first: Usage = generations[0].usage
    usages = [generation.usage for generation in generations]
    completion = sum(usage.completion_tokens for usage in usages)
    return {
        "prompt_tokens": first.prompt_tokens,
        "completion_tokens": completion,
        "total_tokens": first.prompt_tokens + completion,
        "prompt_tokens_details": {"cached_tokens": first.cached_tokens, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": 0,
            "audio_tokens": 0,
            "accepted_prediction_tokens": sum(usage.accepted_prediction_tokens for usage in usages),
            "rejected_prediction_tokens": sum(usage.rejected_prediction_tokens for usage in usages),
        },
    }


def sum_usage(usages: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the sum of usages, details included. They have the same fields."""
    first, *others = usages
    return {
        name: sum_usage([value, *(other[name] for other in others)])
        if isinstance(value, Mapping)
        else sum((other[name] for other in others), value)
        for name, value in first.items()
    }
