"""The calls that the history of a model request holds, and that a prediction must not repeat."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from ..calls import ToolCall, parse_arguments
from ..tools.speculable_tool import SpeculableTool


class CallHistory:
    """The calls of speculable tools in the messages of one model request, in OpenAI's shape."""

    def __init__(self, messages: Sequence[Mapping[str, Any]], tools: Mapping[str, SpeculableTool]) -> None:
        """Messages of another shape, and calls that no tool of ``tools`` takes, are left out."""
        self.called: set[str] = set()
        """The tools that were called, with a result."""
        self.keys: set[str] = set()
        """The keys of the calls since the user's last message whose results still hold.

        A call is left out once a tool of ``invalidated_by`` was called in the same answer or after it.
        """
        answered = {str(message.get("tool_call_id")) for message in messages if message.get("role") == "tool"}
        holding: dict[str, SpeculableTool] = {}
        for message in messages:
            if message.get("role") == "user":
                holding.clear()
            calls = _calls_of(message)
            for call in calls:
                called = tools.get(call.name)
                if called is not None:
                    if str(call.id) in answered:
                        self.called.add(call.name)
                    with suppress(Exception):  # validators and canonicalisers are the user's
                        holding[called.key_of(call.arguments)] = called
            # Calls of one answer may run at once: a read beside a write may be from before it.
            written = {call.name for call in calls}
            for key, tool in list(holding.items()):
                if not written.isdisjoint(tool.options.invalidated_by):
                    del holding[key]
        self.keys.update(holding)


def _calls_of(message: Mapping[str, Any]) -> list[ToolCall]:
    calls: list[ToolCall] = []
    made = message.get("tool_calls")
    for call in made if isinstance(made, Sequence) else ():
        with suppress(KeyError, TypeError, ValueError):
            function = call["function"]
            calls.append(ToolCall(function["name"], parse_arguments(function["arguments"]), call.get("id")))
    return calls
