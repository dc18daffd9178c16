"""LangChain messages in the shape of OpenAI's chat completions."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage, convert_to_openai_messages

from agentrt import ToolCall


def openai_messages(messages: Sequence[BaseMessage]) -> list[dict[str, Any]]:
    """Convert a history; calls that the model's server has answered become ordinary tool turns."""
    converted = convert_to_openai_messages(in_turns(messages))
    return converted if isinstance(converted, list) else [converted]


def answered_ids(messages: Sequence[BaseMessage]) -> tuple[list[str], list[str]]:
    """Return the ids of the calls with a result after the last answer, and of those with an error.

    A person's rejection is an error, too.
    """
    latest = itertools.takewhile(lambda message: not isinstance(message, AIMessage), reversed(messages))
    ended = [message for message in latest if isinstance(message, ToolMessage)]
    return (
        [message.tool_call_id for message in ended if message.status != "error"],
        [message.tool_call_id for message in ended if message.status == "error"],
    )


def in_turns(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return the history as if the client had made all calls, also those that the model's server answered."""
    return [part for message in messages for part in _split(message)]


def text_block(text: str, turn: int) -> dict[str, Any]:
    """Return a piece of the text of a turn as a block; LangChain joins blocks of text with equal indices."""
    return {"type": "text", "text": text, "index": f"lc_txt_{turn}"}


def answered_blocks(call: ToolCall, output: str) -> list[str | dict[str, Any]]:
    """Return a call that the model's server has answered as the content blocks of a message."""
    return [
        {"type": "server_tool_call", "id": call.id, "name": call.name, "args": dict(call.arguments)},
        {"type": "server_tool_result", "tool_call_id": call.id, "status": "success", "output": output},
    ]


def _split(message: BaseMessage) -> list[BaseMessage]:
    """Split a message at the calls that the server has answered; without any it keeps its text only."""
    if not isinstance(message, AIMessage) or not isinstance(message.content, list):
        return [message]
    splitter = _MessageSplitter({call["id"] for call in message.tool_calls})
    for block in message.content:
        if not splitter.add({"type": "text", "text": block} if isinstance(block, str) else block):
            return [message]
    splitter.end_turn()
    if not splitter.turns:
        return [message.model_copy(update={"content": splitter.text})]
    if splitter.text or message.tool_calls:
        return [*splitter.turns, AIMessage(splitter.text, tool_calls=message.tool_calls)]
    return splitter.turns


class _MessageSplitter:
    """Collects content blocks into turns of calls and their results.

    Blocks that repeat one of the message's own calls, and earlier reasoning, are left out.
    """

    def __init__(self, calls: Collection[str | None]) -> None:
        """``calls`` are the ids of the message's own calls."""
        self._repeated = calls
        self.turns: list[BaseMessage] = []
        self.text = ""
        """The text after the last complete turn."""
        self._calls: list[Any] = []
        self._results: list[BaseMessage] = []

    def add(self, block: dict[str, Any]) -> bool:
        """Take the next block; return False for one that cannot be converted."""
        kind = block.get("type")
        if kind == "server_tool_result":
            self._results.append(ToolMessage(block["output"], tool_call_id=block["tool_call_id"]))
            return True
        self.end_turn()
        if kind in ("reasoning", "thinking", "redacted_thinking") or self._repeats_call(block):
            return True
        if kind == "text":
            self.text += block["text"]
        elif kind == "server_tool_call":
            self._calls.append({"name": block["name"], "args": block["args"], "id": block["id"]})
        return kind in ("text", "server_tool_call")

    def _repeats_call(self, block: dict[str, Any]) -> bool:
        kinds = ("tool_call", "tool_use", "function_call")
        return block.get("type") in kinds and block.get("call_id", block.get("id")) in self._repeated

    def end_turn(self) -> None:
        """End the turn if its calls have results."""
        if self._results:
            self.turns += [AIMessage(self.text, tool_calls=self._calls), *self._results]
            self.text, self._calls, self._results = "", [], []
