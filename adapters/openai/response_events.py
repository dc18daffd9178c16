"""Events of a streamed response of the responses API, as the events that predictors take."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agentrt.calls import CallArgumentsDelta, CallStarted, ParserEvent, TextDelta


class ResponseEvents:
    """Translates the events of one response; calls are numbered in the order in which they begin."""

    def __init__(self) -> None:
        """Nothing was read yet."""
        self._positions: dict[int, int] = {}

    def read(self, event: Any) -> Iterator[ParserEvent]:
        """Read the next event; those that are neither text nor part of a call yield nothing."""
        match event.type:
            case "response.output_text.delta":
                yield TextDelta(event.delta)
            case "response.output_item.added" if event.item.type == "function_call":
                position = self._positions[event.output_index] = len(self._positions)
                yield CallStarted(position, event.item.name)
            case "response.function_call_arguments.delta" if event.output_index in self._positions:
                yield CallArgumentsDelta(self._positions[event.output_index], event.delta)
