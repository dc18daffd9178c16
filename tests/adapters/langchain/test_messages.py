"""Histories in the shape of other providers, and of LangChain's version 1 of content."""

from __future__ import annotations

from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool

from agentrt.adapters.langchain import ChatAgentRT
from agentrt.adapters.langchain.messages import openai_messages
from agentrt.runtime import LocalRuntime

CALL: Any = {"name": "get_weather", "args": {"city": "Oslo"}, "id": "call_1", "type": "tool_call"}
SHAPES: list[Any] = [
    [{"type": "text", "text": "I look."}, CALL],
    [
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "call_1", "name": "get_weather", "input": {}},
    ],
    [{"type": "reasoning", "reasoning": "Hm."}, {"type": "text", "text": "I look."}, CALL],
    [{"type": "thinking", "thinking": "Hm.", "signature": "x"}, {"type": "text", "text": "I look."}],
]


@pytest.mark.parametrize("content", SHAPES, ids=["v1", "anthropic", "reasoning", "thinking"])
def test_blocks_that_repeat_a_call_or_reason_are_left_out(content: Any) -> None:
    (message,) = openai_messages([AIMessage(content, tool_calls=[CALL])])
    assert message["content"] == "I look."
    assert [call["id"] for call in message["tool_calls"]] == ["call_1"]


def test_a_call_that_is_in_the_content_only_stays() -> None:
    block = {"type": "tool_use", "id": "call_2", "name": "get_weather", "input": {"city": "Rome"}}
    (message,) = openai_messages([AIMessage([block])])
    assert [call["id"] for call in message["tool_calls"]] == ["call_2"]


@pytest.mark.parametrize("streaming", [False, True])
def test_an_agent_goes_on_with_messages_of_version_1(exact_runtime: LocalRuntime, streaming: bool) -> None:
    @tool
    def get_weather(city: str) -> str:
        """Current weather in a city."""
        return f'{{"city": "{city}", "temperature": 12, "sky": "light rain"}}'

    def messages(output_version: str) -> list[Any]:
        chat = ChatAgentRT(
            runtime=exact_runtime, max_tokens=64, output_version=output_version, streaming=streaming
        )
        asked: Any = {"messages": [HumanMessage("What is the weather in Oslo?")]}
        return create_agent(chat, [get_weather]).invoke(asked)["messages"]  # type: ignore[no-any-return]

    old, new = messages("v0"), messages("v1")
    assert [type(message) for message in new] == [HumanMessage, AIMessage, ToolMessage, AIMessage]
    assert [message.text for message in new] == [message.text for message in old]
    assert new[-1].content[0]["type"] == "text"
