"""The tool calls in OpenAI's answers, whole or streamed, of chat completions and of responses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response

from agentrt.calls import CallArgumentsDelta, CallStarted, ParserEvent, TextDelta, ToolCall, parse_arguments

from .requests import ResponseHistory


class AnswerReader(ABC):
    """Reads one answer."""

    def __init__(self) -> None:
        """Nothing has come yet."""
        self._answered: list[tuple[ToolCall, str]] = []
        self._finished: Sequence[ToolCall] | None = None

    @abstractmethod
    def whole(self, answer: Any) -> Sequence[ToolCall] | None:
        """Return the calls of an answer that came at once, or None if this is none."""

    @abstractmethod
    def events(self, event: Any) -> Iterator[ParserEvent]:
        """Take the next piece of a streamed answer, and yield what predictors see of it."""

    def answered(self) -> Sequence[tuple[ToolCall, str]]:
        """Return the calls that the endpoint has answered in this very answer, each once, with their results.

        They are no longer among the calls of the answer.
        """
        answered, self._answered = self._answered, []
        return answered

    def finished(self) -> Sequence[ToolCall] | None:
        """Return the calls of a streamed answer once all are complete, and only once."""
        calls, self._finished = self._finished, None
        return calls


def _calls(parts: Sequence[tuple[str, str, str]]) -> list[ToolCall]:
    """The calls among (name, arguments, id) whose arguments can be read; the others match nothing."""
    calls = []
    for name, arguments, call_id in parts:
        with suppress(ValueError):
            calls.append(ToolCall(name, parse_arguments(arguments or "{}"), call_id))
    return calls


class ChatReader(AnswerReader):
    """Reads a chat completion; of several choices, the first."""

    def __init__(self) -> None:
        """Nothing has come yet."""
        super().__init__()
        self._parts: dict[int, dict[str, str]] = {}

    def whole(self, answer: Any) -> Sequence[ToolCall] | None:
        """Return the calls of a :class:`ChatCompletion`."""
        if not isinstance(answer, ChatCompletion) or not answer.choices:
            return None
        made = answer.choices[0].message.tool_calls or ()
        return _calls([(c.function.name, c.function.arguments, c.id) for c in made if c.type == "function"])

    def events(self, event: Any) -> Iterator[ParserEvent]:
        """Take a :class:`ChatCompletionChunk`."""
        if not isinstance(event, ChatCompletionChunk):
            return
        for choice in event.choices:
            if choice.index != 0:
                continue
            if choice.delta.content:
                yield TextDelta(choice.delta.content)
            for piece in choice.delta.tool_calls or ():
                name = piece.function.name if piece.function else None
                part = self._parts.get(piece.index)
                if part is None:
                    part = self._parts[piece.index] = {
                        "name": name or "",
                        "id": piece.id or "",
                        "arguments": "",
                    }
                    yield CallStarted(piece.index, part["name"])
                text = piece.function.arguments if piece.function else None
                if text:
                    part["arguments"] += text
                    yield CallArgumentsDelta(piece.index, text)
            for result in (choice.delta.model_extra or {}).get("tool_results") or ():
                part = self._parts.pop(result["index"])
                for call in _calls([(part["name"], part["arguments"], part["id"])]):
                    self._answered.append((call, result["content"]))
            if choice.finish_reason is not None:
                parts = [self._parts[index] for index in sorted(self._parts)]
                self._finished = _calls([(part["name"], part["arguments"], part["id"]) for part in parts])


class ResponsesReader(AnswerReader):
    """Reads a response, and remembers it for requests that go on from it."""

    def __init__(self, history: ResponseHistory, body: Mapping[str, Any]) -> None:
        """``body`` is the request that is answered."""
        super().__init__()
        self._history = history
        self._body = body
        self._places: dict[int, int] = {}
        self._made: dict[str, Any] = {}

    def whole(self, answer: Any) -> Sequence[ToolCall] | None:
        """Return the calls of a :class:`Response`; one that goes on in the background has none yet."""
        if not isinstance(answer, Response) or answer.status in ("queued", "in_progress"):
            return None
        self._history.remember(self._body, answer)
        done = {item.call_id for item in answer.output if item.type == "function_call_output"}
        made = [item for item in answer.output if item.type == "function_call" and item.call_id not in done]
        return _calls([(item.name, item.arguments, item.call_id) for item in made])

    def events(self, event: Any) -> Iterator[ParserEvent]:
        """Take an event of a streamed response."""
        match event.type:
            case "response.output_text.delta":
                yield TextDelta(event.delta)
            case "response.output_item.added" if event.item.type == "function_call":
                place = self._places[event.output_index] = len(self._places)
                yield CallStarted(place, event.item.name)
            case "response.function_call_arguments.delta" if event.output_index in self._places:
                yield CallArgumentsDelta(self._places[event.output_index], event.delta)
            case "response.output_item.done" if event.item.type == "function_call":
                self._made[event.item.call_id] = event.item
            case "response.output_item.done" if event.item.type == "function_call_output":
                made = self._made.get(event.item.call_id)
                for call in _calls([(made.name, made.arguments, made.call_id)] if made else []):
                    self._answered.append((call, str(event.item.output)))
            case "response.completed" | "response.incomplete":
                self._finished = self.whole(event.response)
