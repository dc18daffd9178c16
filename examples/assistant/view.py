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
    """Return a message as short lines for a terminal: calls with arguments, results cut, text in one line."""
    if isinstance(message, ToolMessage):
        return [describe_result(message)]
    lines = describe_calls(message)
    return [*lines, printable(" ".join(message.text.split()))] if message.text else lines


def describe_result(message: ToolMessage) -> str:
    """Return a result in one line, cut. Control characters of tools are shown, not obeyed."""
    result = " ".join(message.text.split())
    return printable(f"= {result if len(result) <= _LONGEST_RESULT else result[:_LONGEST_RESULT] + ' ...'}")


def describe_calls(message: AnyMessage) -> list[str]:
    """Return a line for each call of a message. Control characters of models are shown, not obeyed."""
    return [
        printable(f"* {call['name']}({', '.join(_argument(*each) for each in call['args'].items())})")
        for call in (message.tool_calls if isinstance(message, AIMessage) else ())
    ]


def _argument(name: str, value: object) -> str:
    return f"{name}={json.dumps(value, ensure_ascii=False)}"
