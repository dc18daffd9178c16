"""Generations in the format of OpenAI's responses, whole and as typed events."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterator, Mapping
from typing import Any

from agentrt.calls import CallArgumentsDelta, CallFinished, CallStarted, TextDelta

from ...engine.output.generation import CallAnswered, Finished, Generation, GenerationEvent, LogprobsDelta
from ...engine.output.pending import LOGPROBS_AT_ONCE
from ...local.service import LocalRuntime
from .logprobs import format_logprobs
from .responses_request import ResponsesRequest

Event = dict[str, Any]


class ResponseWriter:
    """Builds one response from a generation's events, and returns each step as OpenAI's typed events."""

    def __init__(self, runtime: LocalRuntime, model: str, request: ResponsesRequest) -> None:
        """Create an empty response to ``request``; ``model`` is the model's name in this server."""
        self.model = model
        self.id = f"resp_{secrets.token_hex(24)}"
        self._runtime = runtime
        self._request = request
        self._created = int(time.time())
        self._items: list[dict[str, Any]] = []
        self._text: list[str] = []
        self._logprobs: list[dict[str, Any]] = []
        self._pending_logprobs: list[dict[str, Any]] = []
        self.has_logprobs = request.wants_logprobs
        """Whether the text has log probabilities, which its last events have once more."""
        self._next_number = 0
        self._generation: Generation | None = None

    def opening_events(self) -> Iterator[Event]:
        """Yield the events that are sent before anything is generated."""
        for kind in ("created", "in_progress"):
            yield self._event(f"response.{kind}", response=self.response())

    def events(self, event: GenerationEvent) -> Iterator[Event]:
        """Yield the events for one step of the generation."""
        if isinstance(event, LogprobsDelta):
            self._pending_logprobs += format_logprobs(self._runtime, event.tokens)
            if len(self._pending_logprobs) >= LOGPROBS_AT_ONCE and self._open_item("message") is not None:
                yield from self._add_text("")
        elif isinstance(event, TextDelta):
            # A call that a stop text ends is repeated as text, but its first part was sent already as a call.
            if self._open_item("function_call") is None:
                yield from self._add_text(event.text)
        elif isinstance(event, CallStarted):
            if self._runtime.constrains_calls:
                yield from self._start_call(event.id, event.name)
        elif isinstance(event, CallArgumentsDelta):
            if self._runtime.constrains_calls:
                yield from self._add_arguments(event.text)
        elif isinstance(event, CallFinished):
            if self._open_item("function_call") is None:
                yield from self._start_call(event.call.id, event.call.name)
                yield from self._add_arguments(json.dumps(event.call.arguments, ensure_ascii=False))
            yield from self._end_item("completed")
        elif isinstance(event, CallAnswered):
            yield from self._end_item("completed")
            result = {"type": "function_call_output", "id": f"fco_{secrets.token_hex(12)}"}
            yield from self._start_item(result | {"call_id": event.call.id, "output": event.output})
            yield from self._end_item("completed")
        elif isinstance(event, Finished):
            self._generation = event.generation
            cut = event.generation.finish_reason == "length"
            yield from self._end_item("incomplete" if cut else "completed")
            kind = "incomplete" if cut else "completed"
            yield self._event(f"response.{kind}", response=self.response())

    def failure(self, error: Mapping[str, Any]) -> Event:
        """Return the event that ends a response which failed."""
        failed = self.response() | {
            "status": "failed",
            "error": {"code": "server_error", "message": error["message"]},
        }
        return self._event("response.failed", response=failed)

    def response(self) -> dict[str, Any]:
        """Return the response as far as it is generated."""
        request, generation = self._request, self._generation
        cut = generation is not None and generation.finish_reason == "length"
        status = "in_progress" if generation is None else "incomplete" if cut else "completed"
        text_format = request.text and request.text.format
        return {
            "id": self.id,
            "object": "response",
            "created_at": self._created,
            "status": status,
            "background": False,
            "error": None,
            "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
            "instructions": request.instructions,
            "max_output_tokens": request.max_output_tokens,
            "metadata": request.metadata or {},
            "model": self.model,
            "output": self._items if generation is not None else [],
            "parallel_tool_calls": request.parallel_tool_calls is not False,
            "previous_response_id": request.previous_response_id,
            "reasoning": {"effort": None, "summary": None},
            "service_tier": request.served_tier,
            "store": request.is_stored,
            "temperature": request.temperature or 0.0,
            "text": {"format": text_format or {"type": "text"}},
            "tool_choice": request.tool_choice or "auto",
            "tools": request.tools or [],
            "top_logprobs": request.top_logprobs or 0,
            "top_p": request.top_p or 1.0,
            "truncation": "disabled",
            "usage": None if generation is None else _usage(generation),
        }

    def _add_text(self, text: str) -> Iterator[Event]:
        if self._open_item("message") is None:
            message = {"type": "message", "id": f"msg_{secrets.token_hex(12)}", "role": "assistant"}
            yield from self._start_item(message | {"content": []})
            yield self._part_event("response.content_part.added", part=_part("", []))
        logprobs, self._pending_logprobs = self._pending_logprobs, []
        self._text.append(text)
        self._logprobs += logprobs
        yield self._part_event("response.output_text.delta", delta=text, logprobs=logprobs)

    def _start_call(self, id: str | None, name: str) -> Iterator[Event]:
        yield from self._end_item("completed")
        call = {"type": "function_call", "id": f"fc_{secrets.token_hex(12)}", "name": name, "arguments": ""}
        yield from self._start_item(call | {"call_id": id})

    def _add_arguments(self, text: str) -> Iterator[Event]:
        self._text.append(text)
        yield self._item_event("response.function_call_arguments.delta", delta=text)

    def _start_item(self, item: dict[str, Any]) -> Iterator[Event]:
        started = item | {"status": "in_progress"}
        self._items.append(started)
        index = len(self._items) - 1
        yield self._event("response.output_item.added", output_index=index, item=dict(started))

    def _end_item(self, status: str) -> Iterator[Event]:
        """Complete the item in progress, if there is one."""
        if not self._items or self._items[-1]["status"] != "in_progress":
            return
        item, text = self._items[-1], "".join(self._text)
        if item["type"] == "message":
            part = _part(text, self._logprobs)
            yield self._part_event("response.output_text.done", text=text, logprobs=self._logprobs)
            yield self._part_event("response.content_part.done", part=part)
            item["content"] = [part]
        elif item["type"] == "function_call":
            yield self._item_event("response.function_call_arguments.done", arguments=text)
            item["arguments"] = text
        item["status"] = status
        self._text, self._logprobs = [], []
        yield self._event("response.output_item.done", output_index=len(self._items) - 1, item=dict(item))

    def _open_item(self, kind: str) -> dict[str, Any] | None:
        """Return the item in progress if it is of this kind."""
        last = self._items[-1] if self._items else None
        return last if last and last["type"] == kind and last["status"] == "in_progress" else None

    def _part_event(self, kind: str, **fields: Any) -> Event:
        return self._item_event(kind, content_index=0, **fields)

    def _item_event(self, kind: str, **fields: Any) -> Event:
        index = len(self._items) - 1
        return self._event(kind, item_id=self._items[index]["id"], output_index=index, **fields)

    def _event(self, kind: str, **fields: Any) -> Event:
        event = {"type": kind, "sequence_number": self._next_number, **fields}
        self._next_number += 1
        return event


def response_body(writer: ResponseWriter, generation: Generation) -> dict[str, Any]:
    """Return the body of a response that is not streamed."""
    steps: list[GenerationEvent] = [LogprobsDelta(generation.logprobs)]
    if generation.text:
        steps.append(TextDelta(generation.text))
    for index, call in enumerate(generation.tool_calls):
        arguments = json.dumps(call.arguments, ensure_ascii=False)
        steps += [CallStarted(index, call.name, call.id), CallArgumentsDelta(index, arguments)]
        steps.append(CallFinished(index, call))
    for step in (*steps, Finished(generation)):
        for _ in writer.events(step):
            pass
    return writer.response()


def _part(text: str, logprobs: list[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": logprobs}


def _usage(generation: Generation) -> dict[str, Any]:
    usage = generation.usage
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }
