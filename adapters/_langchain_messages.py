"""LangChain messages in the shape of OpenAI's chat completions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import BaseMessage, convert_to_openai_messages


def openai_messages(messages: Sequence[BaseMessage]) -> list[dict[str, Any]]:
    """Convert a history."""
    converted = convert_to_openai_messages(list(messages))
    return converted if isinstance(converted, list) else [converted]
