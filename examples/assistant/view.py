"""What shows a turn while it runs, and messages as short lines."""

from __future__ import annotations

import json
from typing import Protocol

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage

from agentrt.terminal_text import printable

_LONGEST_RESULT = 90  # characters of a tool's result that are shown


class TurnView(Protocol):
    """Receives the events of one turn. Its methods must neither block nor raise."""

    def token(self, text: str) -> None:
        """The model writes a piece of text."""

    def message(self, message: AnyMessage) -> None:
        """The model has written a message, or a tool has answered."""


def describe(message: AnyMessage) -> list[str]:
    """Return a message as short lines for a terminal: calls with arguments, results cut, text in one line.

    Control characters of models and tools are shown, not obeyed.
    """
    if isinstance(message, ToolMessage):
        result = " ".join(message.text.split())
        shown = result if len(result) <= _LONGEST_RESULT else result[:_LONGEST_RESULT] + " ..."
        return [printable(f"= {shown}")]
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    lines = []
    for call in calls:
        arguments = (
            f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in call["args"].items()
        )
        lines.append(printable(f"* {call['name']}({', '.join(arguments)})"))
    return [*lines, printable(" ".join(message.text.split()))] if message.text else lines
