"""Numbers of tokens by the tokenizer of the local model."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    trim_messages,
)
from langchain_core.tools import tool

from agentrt.adapters.langchain import ChatAgentRT
from agentrt.errors import InvalidRequestError, PromptTooLongError
from agentrt.runtime import LocalRuntime

CALL = {"name": "get_weather", "args": {"city": "Oslo"}, "id": "call_1", "type": "tool_call"}
HISTORY: list[BaseMessage] = [
    SystemMessage("You are a helpful assistant."),
    HumanMessage("What is the weather in Oslo?"),
    AIMessage("", tool_calls=[CALL]),
    ToolMessage('{"temperature": 12}', tool_call_id="call_1"),
    AIMessage("In Oslo it is 12 degrees."),
    HumanMessage("Thanks!"),
]


@tool
def get_weather(city: str) -> str:
    """Current weather in a city."""
    return ""


@pytest.fixture
def chat(exact_runtime: LocalRuntime) -> ChatAgentRT:
    return ChatAgentRT(runtime=exact_runtime, max_tokens=2)


def test_tokens_of_a_text(chat: ChatAgentRT) -> None:
    ids = chat.get_token_ids("What is the weather?")
    assert chat.get_num_tokens("What is the weather?") == len(ids) > 1
    assert b"".join(map(chat.runtime.token_text, ids)) == b"What is the weather?"
    mine = chat.model_copy(update={"custom_get_token_ids": lambda text: [1, 2, 3]})
    assert mine.get_token_ids("x") == [1, 2, 3]
    assert mine.get_num_tokens_from_messages(HISTORY[:2]) == 6


@pytest.mark.parametrize("tools", [[], [get_weather]])
@pytest.mark.parametrize("length", [2, 4, 6])
def test_a_prompt_is_counted_as_the_answer_counts_it(
    chat: ChatAgentRT, tools: list[Any], length: int
) -> None:
    usage = chat.bind_tools(tools).invoke(HISTORY[:length]).usage_metadata
    assert chat.get_num_tokens_from_messages(HISTORY[:length], tools) == usage["input_tokens"]


def test_every_part_of_a_conversation_has_a_number(chat: ChatAgentRT) -> None:
    count = chat.get_num_tokens_from_messages
    assert count([]) == 0
    for first in range(len(HISTORY)):
        for last in range(first + 1, len(HISTORY) + 1):
            assert 0 < count(HISTORY[first:last]) <= count(HISTORY[first:last], [get_weather])
    for empty in (HumanMessage(""), HumanMessage([])):
        with pytest.raises(InvalidRequestError):
            chat.invoke([*HISTORY, empty])
        assert count(HISTORY) <= count([*HISTORY, empty])
        assert count([*HISTORY, empty]) < count([*HISTORY, empty], [get_weather])


@pytest.mark.parametrize(
    "options", [{}, {"strategy": "first"}, {"allow_partial": True}, {"start_on": "human"}]
)
def test_histories_are_trimmed_to_what_the_model_counts(chat: ChatAgentRT, options: Any) -> None:
    long = [*HISTORY[:5], *(HumanMessage(f"Question {number}?") for number in range(300)), HISTORY[5]]
    with pytest.raises(PromptTooLongError):
        chat.invoke(long)
    limit = 500
    with_system = {} if options.get("strategy") == "first" else {"include_system": True}
    kept = trim_messages(long, max_tokens=limit, token_counter=chat, **with_system, **options)
    assert 2 < len(kept) < len(long)
    assert isinstance(kept[0], SystemMessage)
    answer = chat.invoke(kept)
    assert limit - 30 < answer.usage_metadata["input_tokens"] <= limit
