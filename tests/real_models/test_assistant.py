"""The assistant on real models: a small one looks up what is asked, states it whole, and claims nothing."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
from collections.abc import Iterator
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from agentrt.adapters.langchain import ChatAgentRT
from agentrt.examples.assistant.data import PersonalData
from agentrt.examples.assistant.sample_data import write_sample_data
from agentrt.examples.assistant.services import Latencies
from agentrt.examples.assistant.steering import Steering
from agentrt.examples.personal_assistant import assistant_agent, assistant_tools
from agentrt.runtime import LocalRuntime

_SMALLEST = 3 * 10**8
"""Bytes of a file. SmolLM2 of 135 million parameters tells nothing from anything."""


@pytest.fixture
def data(tmp_path: Path) -> Iterator[PersonalData]:
    write_sample_data(tmp_path / "sample", dt.date.today())
    with contextlib.closing(PersonalData.open(tmp_path / "sample")) as opened:
        yield opened


@pytest.mark.parametrize(
    ("question", "called", "parts"),
    [
        ("What is on my calendar tomorrow?", "list_events", ("Dentist", "Dinner")),
        ("What is the weather in Oslo and Rome?", "get_weather", ("Oslo", "Rome", "degrees")),
        ("Read the file club/minutes.txt", "read_file", ("Greta",)),
        ("Write a note: buy candles", "create_note", ("Saved as a note", "candles")),
        ("Hello!", None, ()),
        ("Send a mail to Anna that I am late", None, ("I cannot do that",)),
    ],
)
def test_a_turn(
    runtime: LocalRuntime, file: Path, data: PersonalData, question: str, called: str | None, parts: list[str]
) -> None:
    if file.stat().st_size < _SMALLEST:
        pytest.skip("too small a model to tell what a message needs")
    model = ChatAgentRT(runtime=runtime, max_tokens=128)
    agent = assistant_agent(
        model, assistant_tools(data, Latencies(0, 0, 0), web=True, changes=True), [Steering(data, model)]
    )
    state = asyncio.run(agent.ainvoke({"messages": [HumanMessage(question)]}))
    calls = [
        call for message in state["messages"] if isinstance(message, AIMessage) for call in message.tool_calls
    ]
    assert {call["name"] for call in calls} == ({called} if called else set())
    answer = state["messages"][-1].text
    assert answer.strip()
    assert all(part.lower() in answer.lower() for part in parts)
