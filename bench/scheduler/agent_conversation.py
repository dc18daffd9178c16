"""The agent of the agent-turn figures: its tools, and conversations that are the same on all sides."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Final

CALL_TOKENS: Final = 32
"""Of the answers before the last one: as long as a call."""
ANSWER_TOKENS: Final = 64
"""Of the last answer."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One model request of the agent."""

    messages: tuple[dict[str, Any], ...]
    answer_tokens: int


def tools() -> list[dict[str, Any]]:
    """Return the definitions of the agent's tools, in OpenAI's shape."""
    found: list[dict[str, Any]] = _assistant()["tools"]
    return found


def conversation(number: int) -> Iterator[Turn]:
    """Yield the turns of conversation ``number``, of which no two begin alike.

    What the model answers is not in the messages of the next turn: a call that was written beforehand is, and
    its result, so that all models and all servers have the same messages.
    """
    assistant = _assistant()
    user = assistant["users"][number % len(assistant["users"])]
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": assistant["system"].format(number=number, user=user)},
        {"role": "user", "content": assistant["question"]},
    ]
    for place, call in enumerate(assistant["calls"]):
        yield Turn(tuple(messages), CALL_TOKENS)
        made = {
            "id": f"call_{number}_{place}",
            "type": "function",
            "function": {"name": call["name"], "arguments": json.dumps(call["arguments"])},
        }
        messages += [
            {"role": "assistant", "content": "", "tool_calls": [made]},
            {"role": "tool", "tool_call_id": made["id"], "content": json.dumps(call["result"])},
        ]
    yield Turn(tuple(messages), ANSWER_TOKENS)


@cache
def _assistant() -> dict[str, Any]:
    text = resources.files(__package__).joinpath("assistant.json").read_text("utf-8")
    read: dict[str, Any] = json.loads(text)
    return read
