"""LangChain's middleware on a local model whose context is short."""

from __future__ import annotations

from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.messages import AIMessage, HumanMessage

from agentrt.adapters.langchain import ChatAgentRT
from agentrt.runtime import LocalRuntime


def test_a_history_is_summarized_within_the_context_of_the_model(exact_runtime: LocalRuntime) -> None:
    chat = ChatAgentRT(runtime=exact_runtime, max_tokens=16)
    history: list[Any] = []
    for number in range(200):
        history += [HumanMessage(f"What is the weather in town {number}?"), AIMessage("It is cold and wet.")]
    assert chat.get_num_tokens_from_messages(history) > exact_runtime.context_length
    middleware = SummarizationMiddleware(
        chat,
        trigger=("fraction", 0.5),  # of the profile's max_input_tokens
        keep=("messages", 4),
        token_counter=chat.get_num_tokens_from_messages,
        summary_prompt="Summarize:\n{messages}",
        trim_tokens_to_summarize=None,  # so that the summary's own prompt is too long, and is cut
    )
    answered: Any = create_agent(chat, [], middleware=[middleware]).invoke(
        {"messages": [*history, HumanMessage("Hello!")]}
    )
    assert answered["messages"][-1].text
    assert len(answered["messages"]) < 10
