"""Reading tool calls from the answers of the Agents SDK's models, whole or streamed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from agentrt.calls import CallArgumentsDelta, CallStarted, ParserEvent, TextDelta, ToolCall, parse_arguments


def tool_calls(output: Sequence[Any]) -> list[ToolCall]:
    """Return the calls of function tools in an answer's items, without those whose arguments are not JSON."""
    calls = []
    for item in output:
        if getattr(item, "type", None) == "function_call":
            with suppress(ValueError):
                calls.append(ToolCall(item.name, parse_arguments(item.arguments), item.call_id))
    return calls


class StreamedAnswer:
    """Reads the events of one streamed answer, which have the shape of the responses API."""

    def __init__(self) -> None:
        """Create a reader of one answer."""
        self.response_id: str | None = None
        """The id of the answer, once it is complete."""
        self._items: list[Any] = []
        self._positions: dict[int, int] = {}

    def read(self, event: Any) -> Iterator[ParserEvent]:
        """Read the next event; yield it as the events that predictors take."""
        match event.type:
            case "response.output_text.delta":
                yield TextDelta(event.delta)
            case "response.output_item.added" if event.item.type == "function_call":
                position = self._positions[event.output_index] = len(self._positions)
                yield CallStarted(position, event.item.name)
            case "response.function_call_arguments.delta" if event.output_index in self._positions:
                yield CallArgumentsDelta(self._positions[event.output_index], event.delta)
            case "response.output_item.done":
                self._items.append(event.item)

    def complete(self, event: Any) -> Sequence[Any] | None:
        """Return all items of the answer if ``event`` ends it, else None.

        Some endpoints leave them out of the last event; the SDK then takes those that came before, too.
        """
        if event.type != "response.completed":
            return None
        self.response_id = event.response.id
        return event.response.output or self._items
