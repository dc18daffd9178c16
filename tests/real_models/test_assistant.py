"""The assistant of the demo with a real model: it calls a tool and then answers."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
from pathlib import Path

import httpx
import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from agentrt.adapters.langchain import ChatAgentRT
from agentrt.examples.assistant.data import PersonalData
from agentrt.examples.assistant.sample_data import write_sample_data
from agentrt.examples.personal_assistant import assistant_agent, assistant_tools, system_prompt
from agentrt.runtime import LocalRuntime

_SMALLEST = 10**9
"""Bytes of a file. Qwen2.5-Coder-0.5B repeats its calls, whatever it is told; see docs/demo.md."""


@pytest.mark.parametrize(
    ("question", "part"),
    [("What is on my calendar tomorrow?", "Dentist"), ("Read the file club/minutes.txt", "Greta")],
)
def test_a_call_is_followed_by_an_answer(
    runtime: LocalRuntime, file: Path, tmp_path: Path, question: str, part: str
) -> None:
    if file.stat().st_size < _SMALLEST:
        pytest.skip("too small a model to answer from a tool's result")
    write_sample_data(tmp_path / "sample", dt.date.today())

    async def answer(data: PersonalData) -> list[object]:
        async with httpx.AsyncClient() as unused:
            model = ChatAgentRT(runtime=runtime, max_tokens=128)
            agent = assistant_agent(model, assistant_tools(data, unused), prompt=system_prompt(runtime))
            state = await agent.ainvoke({"messages": [HumanMessage(question)]})
        messages: list[object] = state["messages"][1:]
        return messages

    with contextlib.closing(PersonalData.open(tmp_path / "sample")) as data:
        called, result, said = asyncio.run(answer(data))  # one call, its result, and no call again
    assert isinstance(called, AIMessage)
    assert len(called.tool_calls) == 1
    assert isinstance(result, ToolMessage)
    assert isinstance(said, AIMessage)
    assert part.lower() in said.text.lower()
