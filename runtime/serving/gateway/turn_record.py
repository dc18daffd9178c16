"""The text and the tool calls of one turn, collected from streamed chunks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentrt.calls import ToolCall

from ...toolcache.outputs import ToolOutputs
from ..http.strict_json import MAX_VALUES, has_more_values, parse_json

MAX_CALLS = 1024
_MAX_CHARACTERS = 2**20
"""Of one turn. The record of a longer one is dropped; its chunks are sent all the same."""


@dataclass
class RecordedCall:
    """A tool call as far as it was streamed."""

    id: str
    name: str = ""
    parts: list[str] = field(default_factory=list)
    """Of the arguments, in order. Joining them at each part would copy all of them."""

    @property
    def arguments(self) -> str:
        """The arguments as JSON text."""
        return "".join(self.parts)


class TurnRecord:
    """One turn of the model, collected to be answered from a tool cache.

    A turn that is too long, or whose chunks do not follow OpenAI's format, is not recorded and has no
    outputs.
    """

    def __init__(self) -> None:
        """Create an empty record."""
        self.calls: list[RecordedCall] = []
        self._text: list[str] = []
        self._characters = 0
        self._recording = True

    @property
    def recording(self) -> bool:
        """False once the turn was given up as too long or malformed."""
        return self._recording

    def stop(self) -> None:
        """Drop the record; nothing more is recorded of this turn."""
        self._recording = False
        self.calls, self._text = [], []

    def add_text(self, text: str) -> None:
        """Append text of the assistant."""
        if self._recording:
            self._text.append(text)
            self._count(text)

    def add_call(self, id: str) -> None:
        """Begin a call with this id."""
        self.calls.append(RecordedCall(id))

    def add_function(self, index: int, function: Mapping[str, Any]) -> None:
        """Add a part of the call at ``index``: its name, more of its arguments, or both."""
        call = self.calls[index]
        name, arguments = function.get("name") or "", function.get("arguments") or ""
        call.name = call.name or name
        if name not in ("", call.name):
            self.stop()
            return
        call.parts.append(arguments)
        self._count(arguments)

    def tool_calls(self) -> list[ToolCall]:
        """Return the calls, in order; none if their arguments are no objects, or too large."""
        calls: list[ToolCall] = []
        if has_more_values(",".join(call.arguments for call in self.calls).encode(), MAX_VALUES):
            return calls
        for call in self.calls:
            try:
                arguments = parse_json((call.arguments or "{}").encode())
            except ValueError:
                return []
            if not isinstance(arguments, dict):
                return []
            calls.append(ToolCall(call.name, arguments))
        return calls

    def outputs_from(self, cache: ToolOutputs) -> list[str]:
        """Return the cached outputs of all calls, in order; empty if one is missing or there is no call.

        Entries that are not reusable are used up by that.
        """
        found = cache.find(self.tool_calls())
        cache.use(found)
        return [entry.output for entry in found]

    def messages(self, outputs: Sequence[str]) -> list[dict[str, Any]]:
        """Return the turn as an assistant message, followed by one tool message per output."""
        calls = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in self.calls
        ]
        results = [
            {"role": "tool", "tool_call_id": call.id, "content": output}
            for call, output in zip(self.calls, outputs, strict=True)
        ]
        return [
            {"role": "assistant", "content": "".join(self._text) or None, "tool_calls": calls},
            *results,
        ]

    def _count(self, text: str) -> None:
        self._characters += len(text)
        if self._characters > _MAX_CHARACTERS:
            self.stop()
