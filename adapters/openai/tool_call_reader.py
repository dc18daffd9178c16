"""Reading tool calls from OpenAI's answers, whole or streamed, of chat completions and of responses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.chat.chat_completion_chunk import ChoiceDeltaToolCall
from openai.types.responses import Response

from agentrt.calls import CallArgumentsDelta, CallStarted, ParserEvent, TextDelta, ToolCall, parse_arguments

from ..stainless.wire import AnswerReader
from .response_history import ResponseEvents, ResponseHistory


def _calls(parts: Sequence[tuple[str, str, str]]) -> list[ToolCall]:
    """Return the calls given as (name, arguments, id), without those whose arguments cannot be parsed."""
    calls = []
    for name, arguments, call_id in parts:
        with suppress(ValueError):
            calls.append(ToolCall(name, parse_arguments(arguments), call_id))
    return calls


class ChatCompletionReader(AnswerReader):
    """Reads a chat completion; of several choices, the first."""

    def __init__(self) -> None:
        """Create a reader of one chat completion."""
        super().__init__()
        self._parts: dict[int, dict[str, str]] = {}

    def read_whole(self, answer: Any) -> Sequence[ToolCall] | None:
        """Return the calls of a :class:`ChatCompletion`."""
        if not isinstance(answer, ChatCompletion) or not answer.choices:
            return None
        made = answer.choices[0].message.tool_calls or ()
        return _calls([(c.function.name, c.function.arguments, c.id) for c in made if c.type == "function"])

    def read_event(self, event: Any) -> Iterator[ParserEvent]:
        """Read a :class:`ChatCompletionChunk`."""
        if not isinstance(event, ChatCompletionChunk):
            return
        self.response_id = self.response_id or getattr(event, "id", None)
        for choice in event.choices:
            if choice.index != 0:
                continue
            if choice.delta.content:
                yield TextDelta(choice.delta.content)
            for piece in choice.delta.tool_calls or ():
                yield from self._read_call(piece)
            for result in (choice.delta.model_extra or {}).get("tool_results") or ():
                part = self._parts.pop(result["index"])
                for call in _calls([(part["name"], part["arguments"], part["id"])]):
                    self._answered.append((call, result["content"]))
            if choice.finish_reason is not None:
                parts = [self._parts[index] for index in sorted(self._parts)]
                self._complete = _calls([(part["name"], part["arguments"], part["id"]) for part in parts])

    def _read_call(self, piece: ChoiceDeltaToolCall) -> Iterator[ParserEvent]:
        function = piece.function
        part = self._parts.get(piece.index)
        if part is None:
            name = (function.name if function else None) or ""
            part = self._parts[piece.index] = {"name": name, "id": piece.id or "", "arguments": ""}
            yield CallStarted(piece.index, name)
        if function and function.arguments:
            part["arguments"] += function.arguments
            yield CallArgumentsDelta(piece.index, function.arguments)


class ResponseReader(AnswerReader):
    """Reads a response, and remembers it for requests that continue it."""

    def __init__(self, history: ResponseHistory, body: Mapping[str, Any]) -> None:
        """``body`` is the request's; ``history`` receives the response."""
        super().__init__()
        self._history = history
        self._body = body
        self._events = ResponseEvents()
        self._made: dict[str, Any] = {}

    def read_whole(self, answer: Any) -> Sequence[ToolCall] | None:
        """Return the calls of a :class:`Response`; None if it still runs in the background."""
        if not isinstance(answer, Response) or answer.status in ("queued", "in_progress"):
            return None
        self._history.remember(self._body, answer.id, answer.output)
        done = {item.call_id for item in answer.output if item.type == "function_call_output"}
        made = [item for item in answer.output if item.type == "function_call" and item.call_id not in done]
        return _calls([(item.name, item.arguments, item.call_id) for item in made])

    def read_event(self, event: Any) -> Iterator[ParserEvent]:
        """Read an event of a streamed response."""
        self.response_id = self.response_id or getattr(getattr(event, "response", None), "id", None)
        yield from self._events.read(event)
        match event.type:
            case "response.output_item.done" if event.item.type == "function_call":
                self._made[event.item.call_id] = event.item
            case "response.output_item.done" if event.item.type == "function_call_output":
                made = self._made.get(event.item.call_id)
                for call in _calls([(made.name, made.arguments, made.call_id)] if made else []):
                    self._answered.append((call, str(event.item.output)))
            case "response.completed" | "response.incomplete":
                self._complete = self.read_whole(event.response)
