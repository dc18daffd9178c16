"""Numbers of tokens of LangChain messages, by the tokenizer and chat template of the local model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from langchain_core.messages import BaseMessage

from agentrt.errors import InvalidRequestError

from .messages import openai_messages

if TYPE_CHECKING:
    from agentrt.runtime import LocalRuntime


def count_message_tokens(
    runtime: LocalRuntime, messages: Sequence[BaseMessage], tools: Sequence[Mapping[str, Any]]
) -> int:
    """Return the number of tokens of a prompt.

    For messages that the model takes it is exact. Parts of a conversation, as ``trim_messages`` counts them,
    may be none: their messages are counted one by one, each with the markup of a whole prompt, which is an
    upper bound.
    """
    if not messages:
        return 0
    converted = openai_messages(messages)
    try:
        return runtime.count_prompt_tokens(converted, tools)
    except InvalidRequestError:
        one = [{"role": "user", "content": "."}]
        around = runtime.count_prompt_tokens(one) - runtime.count_tokens(".")
        described = runtime.count_prompt_tokens(one, tools) - runtime.count_prompt_tokens(one) if tools else 0
        return described + sum(around + runtime.count_tokens(_text(message)) for message in converted)


def _text(message: Mapping[str, Any]) -> str:
    """Return the texts of a message in OpenAI's shape, and of its calls."""
    content = message.get("content") or ""
    parts = [content] if isinstance(content, str) else [str(part.get("text", "")) for part in content]
    functions = [call["function"] for call in message.get("tool_calls") or ()]
    return "\n".join([*parts, *(f"{function['name']} {function['arguments']}" for function in functions)])
