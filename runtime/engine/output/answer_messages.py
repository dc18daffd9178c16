"""The chat messages of an answer, with which a conversation goes on."""

from __future__ import annotations

import json
from typing import Any

from agentrt.calls import CallFinished, TextDelta, ToolCall

from .generation import CallAnswered, Generation, GenerationEvent


class AnswerMessages:
    """Collects the messages of one answer from its events: one of the assistant, and more around tool outputs
    that the engine answered."""

    def __init__(self) -> None:
        """Create an empty answer."""
        self._text: list[str] = []
        self._calls: list[ToolCall] = []
        self._messages: list[dict[str, Any]] = []

    def add(self, event: GenerationEvent) -> None:
        """Take the next event."""
        if isinstance(event, TextDelta):
            self._text.append(event.text)
        elif isinstance(event, CallFinished):
            self._calls.append(event.call)
        elif isinstance(event, CallAnswered):
            self._end_message()
            output = {"role": "tool", "tool_call_id": event.call.id, "content": event.output}
            self._messages.append(output)

    def messages(self) -> list[dict[str, Any]]:
        """Return the messages, once all events were taken."""
        if not self._messages:
            return [_assistant("".join(self._text), self._calls)]
        self._end_message()
        return self._messages

    def _end_message(self) -> None:
        if self._text or self._calls:
            self._messages.append(_assistant("".join(self._text), self._calls))
            self._text, self._calls = [], []


def answer_messages(generation: Generation) -> list[dict[str, Any]]:
    """Return the messages of an answer whose calls the caller has to run, all of them."""
    return [_assistant(generation.text, generation.tool_calls)]


def _assistant(text: str, calls: Any) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if calls:
        message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {
                    "name": call.name,
                    "arguments": json.dumps(call.arguments, ensure_ascii=False),
                },
            }
            for call in calls
        ]
    return message
