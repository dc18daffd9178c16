"""Agents of frameworks on the server: LiteLLM, smolagents and CrewAI, and the requests that they send."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from agentrt import SpeculationSession, ToolCall, speculable
from agentrt.testing import ScriptedSpeculator
from tests.runtime.serving.http.serving import Running
from tests.runtime.serving.server.conftest import WEATHER

QUESTION = WEATHER[0]["content"]


def text(content: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": content}]


def function(name: str, argument: str, **fields: Any) -> dict[str, Any]:
    parameters = {
        "type": "object",
        "properties": {argument: {"type": "string", "description": f"The {argument}."}},
        "required": [argument],
    }
    return {
        "type": "function",
        "function": {"name": name, "description": name, "parameters": parameters, **fields},
    }


SMOLAGENTS: dict[str, Any] = {
    "messages": [
        {"role": "system", "content": text("You are an expert assistant who can solve any task by tools.")},
        {"role": "user", "content": text(f"New task:\n{QUESTION}")},
        {
            "role": "assistant",
            "content": text("Calling tools:\n[{'id': 'call_1', 'function': {'name': 'get_weather'}}]"),
        },
        {"role": "user", "content": [*text("Call id: call_1\n"), *text("Observation:\n12 C in Ljubljana")]},
    ],
    "stop": ["Observation:", "Calling tools:"],
    "tools": [function("get_weather", "city"), function("final_answer", "answer")],
    "tool_choice": "required",
    "temperature": 0,
    "max_tokens": 80,
}
"""The second request of a ToolCallingAgent: contents in parts, a history of texts, a required call."""

CREWAI: dict[str, Any] = {
    "messages": [
        {"role": "system", "content": "You are Assistant. You help.\nYour personal goal is: Answer"},
        {"role": "user", "content": f"\nCurrent Task: {QUESTION}"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "call_1",
                    "type": "function",
                    "function": {"name": "get_weather", "arguments": '{"city": "Ljubljana"}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "name": "get_weather", "content": "12 C in Ljubljana"},
    ],
    "tools": [function("get_weather", "city", strict=True)],
    "tool_choice": "auto",
    "temperature": 0.0,
    "frequency_penalty": 0.0,
    "presence_penalty": 0.0,
    "seed": 1,
    "max_tokens": 80,
    "stream": False,
}
"""The second request of an agent with its native function calling."""


@pytest.mark.parametrize(("body", "expected"), [(SMOLAGENTS, "final_answer"), (CREWAI, "12")])
def test_requests_as_frameworks_send_them(server: Running, body: dict[str, Any], expected: str) -> None:
    answer = httpx.post(f"{server.url}/v1/chat/completions", json={"model": "nano", **body})
    assert answer.status_code == 200, answer.text
    assert expected in json.dumps(answer.json()["choices"][0]["message"])
    streamed = {"model": "nano", **body, "stream": True, "stream_options": {"include_usage": True}}
    events = httpx.post(f"{server.url}/v1/chat/completions", json=streamed)
    assert events.status_code == 200, events.text
    assert events.text.endswith("data: [DONE]\n\n")


def test_smolagents(server: Running) -> None:
    smolagents: Any = pytest.importorskip("smolagents", reason="needs smolagents")
    cities: list[str] = []

    def get_weather(city: str) -> str:
        """Current weather in a city.

        Args:
            city: The city.
        """
        cities.append(city)
        return f"12 C in {city}"

    for stream in (False, True):
        model = smolagents.OpenAIModel(
            "nano", api_base=f"{server.url}/v1", api_key="none", temperature=0, max_tokens=80
        )
        agent = smolagents.ToolCallingAgent(
            tools=[smolagents.tool(get_weather)],
            model=model,
            max_steps=2,
            stream_outputs=stream,
            verbosity_level=smolagents.LogLevel.OFF,
        )
        assert agent.run(QUESTION)
    assert cities == ["Ljubljana"] * 2


CREW = """
import sys
from crewai import LLM, Agent, Crew, Task
from crewai.tools import tool

@tool("get_weather")
def get_weather(city: str) -> str:
    "Current weather in a city."
    print("looked up", city)
    return f"12 C in {city}"

for stream in (False, True):
    server = {"model": "openai/nano", "base_url": sys.argv[1], "api_key": "none"}
    llm = LLM(**server, temperature=0, max_tokens=80, stream=stream)
    agent = Agent(role="Assistant", goal="Answer", backstory="You help.", llm=llm, tools=[get_weather])
    task = Task(description=sys.argv[2], expected_output="One sentence.", agent=agent)
    print("answer:", Crew(agents=[agent], tasks=[task]).kickoff())
"""


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("crewai") is None, reason="needs crewai")
def test_crewai(server: Running, tmp_path: Path) -> None:
    quiet = {
        "CREWAI_DISABLE_TELEMETRY": "true",
        "CREWAI_TRACING_ENABLED": "false",
        "OTEL_SDK_DISABLED": "true",
    }
    done = subprocess.run(
        [sys.executable, "-c", CREW, f"{server.url}/v1", QUESTION],
        env={**os.environ, **quiet, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("looked up Ljubljana") == 2
    assert done.stdout.count("answer:") == 2
    assert "12 C in Ljubljana" in done.stdout


@pytest.mark.filterwarnings("default")  # LiteLLM's own
def test_litellm_in_a_session(
    server: Running, weather_tool: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # it downloads another one
    litellm: Any = pytest.importorskip("litellm", reason="needs litellm")
    cities: list[str] = []

    @speculable
    async def get_weather(city: str) -> str:
        cities.append(city)
        return '{"temperature_c": 12}'

    async def model(messages: Any, tools: Any) -> Any:
        answer = await litellm.acompletion(
            model="openai/nano",
            messages=messages,
            tools=tools,
            api_base=f"{server.url}/v1",
            api_key="none",
            temperature=0,
            max_tokens=80,
        )
        return answer.choices[0].message.model_dump()

    async def main() -> tuple[str, int]:
        messages: list[Any] = list(WEATHER)
        predictor = ScriptedSpeculator([ToolCall("get_weather", {"city": "Ljubljana"})])
        async with SpeculationSession([get_weather], predictor) as session:
            messages.append(await session.ask(model, messages, [weather_tool]))
            (made,) = messages[-1]["tool_calls"]
            arguments = json.loads(made["function"]["arguments"])
            said = await session.acall(ToolCall("get_weather", arguments, made["id"]))
            messages.append({"role": "tool", "tool_call_id": made["id"], "content": said})
            answer = await session.ask(model, messages, [weather_tool])
            return answer["content"], session.report().total.claims

    answer, claims = asyncio.run(main())
    assert "12" in answer
    assert (cities, claims) == (["Ljubljana"], 1)
