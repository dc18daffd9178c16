"""A smaller real model drafts the tool calls of a larger one; the transcript stays what it was."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.tools import tool
from langchain_core.utils.function_calling import convert_to_openai_tool

from agentrt import DraftRequest, ToolCall, speculable
from agentrt.adapters.langchain import ChatAgentRT, report_of, speculate
from agentrt.calls import ToolCallFormat
from agentrt.runtime import LocalRuntime
from agentrt.runtime.model.gguf.cache import convert_gguf
from agentrt.runtime.model.gguf.file_format import read_source
from agentrt.speculators import LocalSpeculator
from tests.real_models.conftest import CONFIG

QUESTION = "What is the weather in Oslo?"


@speculable
@tool
def get_weather(city: str) -> str:
    """Get the weather of a city now."""
    return f"It is raining in {city}, 7 degrees."


def test_a_model_that_was_trained_to_call_tools_drafts_a_call(file: Path, runtime: LocalRuntime) -> None:
    if runtime.call_format is ToolCallFormat.JSON_MESSAGE:
        pytest.skip("its chat template takes no tools")
    predictor = LocalSpeculator(convert_gguf(read_source(file)))
    request = DraftRequest([{"role": "user", "content": QUESTION}], [convert_to_openai_tool(get_weather)], 1)

    async def drafts() -> list[ToolCall]:
        return [call async for call in predictor.drafts(request)]

    assert asyncio.run(drafts()) == [ToolCall("get_weather", {"city": "Oslo"})]


def test_an_agent_with_drafts_says_and_does_the_same(pair: tuple[Path, Path]) -> None:
    draft, main = pair
    predictor = LocalSpeculator(convert_gguf(read_source(draft)), threads=1)
    with LocalRuntime.open(main, CONFIG) as runtime:
        model = ChatAgentRT(runtime=runtime, max_tokens=128, temperature=0)
        plain = transcript(model)
        speculating = speculate(model, predictor)
        assert transcript(speculating) == plain
        report = report_of(speculating)
    assert "get_weather" in str(plain)
    assert report.turns
    assert not any(each.failures for each in report.predictors.values())


def transcript(model: Any) -> list[tuple[str, Any, Any]]:
    result = create_agent(model, [get_weather]).invoke({"messages": [("user", QUESTION)]})
    return [
        (
            message.type,
            message.content,
            [(call["name"], call["args"]) for call in getattr(message, "tool_calls", [])],
        )
        for message in result["messages"]
    ]
