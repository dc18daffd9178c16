"""Reading tool calls from the answers of the Agents SDK's models, whole or streamed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from agentrt.calls import ParserEvent, ToolCall, parse_arguments

from ..openai.response_events import ResponseEvents


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
        self._events = ResponseEvents()

    def read(self, event: Any) -> Iterator[ParserEvent]:
        """Read the next event; yield it as the events that predictors take."""
        yield from self._events.read(event)
        if event.type == "response.output_item.done":
            self._items.append(event.item)

    def complete(self, event: Any) -> Sequence[Any] | None:
        """Return all items of the answer if ``event`` ends it, else None.

        Some endpoints leave them out of the last event; the SDK then takes those that came before, too.
        """
        if event.type != "response.completed":
            return None
        self.response_id = event.response.id
        return event.response.output or self._items
