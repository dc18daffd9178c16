from __future__ import annotations

import asyncio
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from langchain_core.messages import BaseMessage, HumanMessage

from agentrt.adapters.langchain import ChatAgentRT
from agentrt.examples.assistant import paced
from agentrt.examples.assistant.paced import PacedChatAgentRT
from agentrt.runtime import LocalRuntime

pytestmark = pytest.mark.real_model

QUESTION: list[BaseMessage] = [HumanMessage("Hello!")]


@pytest.fixture(scope="module")
def runtime() -> Iterator[LocalRuntime]:
    with LocalRuntime.open("nano") as opened:
        yield opened


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The waits of the paced model, which then take no time; its clock stands still."""
    asked: list[float] = []

    async def sleep(seconds: float) -> None:
        asked.append(seconds)

    # The module's own names: event loops of other threads use the same functions, and would sleep for hours.
    monkeypatch.setattr(paced, "asyncio", SimpleNamespace(sleep=sleep))
    monkeypatch.setattr(paced, "time", SimpleNamespace(monotonic=lambda: 0.0))
    return asked


def test_an_answer_takes_the_time_of_its_tokens_and_says_the_same(
    runtime: LocalRuntime, waits: list[float]
) -> None:
    free = ChatAgentRT(runtime=runtime)
    held = PacedChatAgentRT(runtime=runtime, tokens_per_second=10)
    answer = asyncio.run(held.ainvoke(QUESTION))
    assert answer.text == free.invoke(QUESTION).text
    assert answer.usage_metadata is not None
    assert waits == [answer.usage_metadata["output_tokens"] / 10]
    waits.clear()

    async def stream() -> list[Any]:
        return [chunk async for chunk in held._astream(QUESTION)]

    chunks = asyncio.run(stream())
    assert "".join(chunk.message.text for chunk in chunks) == answer.text
    assert len(waits) == len(chunks) > 1
    assert waits == sorted(waits)
    assert waits[-1] == chunks[-1].message.usage_metadata["output_tokens"] / 10


def test_tokens_can_be_counted_as_those_of_another_vocabulary(
    runtime: LocalRuntime, waits: list[float]
) -> None:
    paced = PacedChatAgentRT(runtime=runtime, tokens_per_second=10, characters_per_token=4)
    answer = asyncio.run(paced.ainvoke(QUESTION))
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    weather = {"name": "get_weather", "description": "Get the weather in a city.", "parameters": schema}
    tools = [{"type": "function", "function": weather}]
    called = asyncio.run(paced.bind_tools(tools).ainvoke("What is the weather in Oslo?"))
    assert len(called.tool_calls) == 1
    call = '{"name": "get_weather", "arguments": {"city": "Oslo"}}'
    assert waits == [len(text) / 4 / 10 for text in (answer.text, call)]
