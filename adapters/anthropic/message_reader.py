"""Reading tool calls from messages, whole or streamed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from agentrt import ToolCall
from agentrt.calls import CallArgumentsDelta, CallStarted, ParserEvent, TextDelta, parse_arguments

from ..stainless.wire import AnswerReader, Body
from .messages import Threads


@dataclass(slots=True)
class _Part:
    """A call of a streamed message, which is its ``position``-th."""

    position: int
    name: str
    id: str
    arguments: str = ""


class MessageReader(AnswerReader):
    """Reads one message. ``agentrt serve`` answers calls by a ``tool_result`` block in the message."""

    def __init__(self, threads: Threads, fields: Body) -> None:
        """``fields`` are the request's, whose answer ``threads`` remembers."""
        super().__init__()
        self._threads = threads
        self._fields = fields
        self._parts: dict[int, _Part] = {}
        """By the index of the call's block."""
        self._answered_ids: set[str] = set()

    def read_whole(self, answer: Any) -> Sequence[ToolCall] | None:
        """Return the calls of a message; None if it is none."""
        if getattr(answer, "type", None) != "message":
            return None
        done = {block.tool_use_id for block in answer.content if block.type == "tool_result"}
        made = [block for block in answer.content if block.type == "tool_use" and block.id not in done]
        calls = [ToolCall(block.name, block.input, block.id) for block in made]
        self._remember(answer.id, calls)
        return calls

    def read_event(self, event: Any) -> Iterator[ParserEvent]:
        """Read the next event of a streamed message."""
        match event.type:
            case "message_start":
                self.response_id = event.message.id
            case "content_block_start" if event.content_block.type == "tool_use":
                block = event.content_block
                position = len(self._parts)
                self._parts[event.index] = _Part(position, block.name, block.id)
                yield CallStarted(position, block.name)
            case "content_block_start" if event.content_block.type == "tool_result":
                self._read_result(event.content_block)
            case "content_block_delta" if event.delta.type == "text_delta":
                yield TextDelta(event.delta.text)
            case "content_block_delta" if event.delta.type == "input_json_delta":
                if (part := self._parts.get(event.index)) is not None:
                    part.arguments += event.delta.partial_json
                    yield CallArgumentsDelta(part.position, event.delta.partial_json)
            case "message_delta":  # says why the message has ended: no block follows
                parts = [part for part in self._parts.values() if part.id not in self._answered_ids]
                self._complete = _calls(parts)
                self._remember(self.response_id or "", self._complete)

    def _read_result(self, block: Any) -> None:
        self._answered_ids.add(block.tool_use_id)
        made = [part for part in self._parts.values() if part.id == block.tool_use_id]
        self._answered += [(call, str(block.content)) for call in _calls(made)]

    def _remember(self, message_id: str, calls: Sequence[ToolCall]) -> None:
        blocks = [{"type": "tool_use", "id": c.id, "name": c.name, "input": c.arguments} for c in calls]
        self._threads.remember(self._fields, message_id, blocks)


def _calls(parts: Sequence[_Part]) -> list[ToolCall]:
    """Return the calls without those that were cut off."""
    calls = []
    for part in parts:
        with suppress(ValueError):
            calls.append(ToolCall(part.name, parse_arguments(part.arguments), part.id))
    return calls
