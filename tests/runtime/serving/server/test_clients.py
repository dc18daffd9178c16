"""Popular clients, unchanged: LangChain, LiteLLM and curl."""

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
from langchain_core.messages import AIMessageChunk, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel

from agentrt import SpeculationSession, ToolCall, speculable
from agentrt.testing import ScriptedSpeculator
from tests.runtime.serving.http.serving import Running
from tests.runtime.serving.server.conftest import HELLO, WEATHER


@tool
def get_weather(city: str) -> str:
    """Current weather in a city."""
    return f"12 C in {city}"


@pytest.fixture
def chat(server: Running) -> Any:
    return ChatOpenAI(
        base_url=f"{server.url}/v1",
        api_key="none",
        model="nano",
        temperature=0,
        max_completion_tokens=80,
        max_retries=0,
        stream_usage=True,
    )


@pytest.mark.parametrize("responses_api", [False, True])
def test_langchain_makes_a_call_and_reads_its_result(chat: Any, responses_api: bool) -> None:
    chat = chat.model_copy(update={"use_responses_api": responses_api}).bind_tools([get_weather])
    question = HumanMessage(WEATHER[0]["content"])
    called = chat.invoke([question])
    (call,) = called.tool_calls
    assert (call["name"], call["args"]) == ("get_weather", {"city": "Ljubljana"})
    assert called.usage_metadata["input_tokens"] > 0
    result = ToolMessage('{"temperature_c": 12}', tool_call_id=call["id"])
    assert "12" in chat.invoke([question, called, result]).text


@pytest.mark.parametrize("responses_api", [False, True])
def test_langchain_streams(chat: Any, responses_api: bool) -> None:
    chat = chat.model_copy(update={"use_responses_api": responses_api})
    whole = chat.invoke("Hello!")
    total = AIMessageChunk("")
    for chunk in chat.stream("Hello!"):
        total += chunk
    assert total.text == whole.text
    assert total.usage_metadata == whole.usage_metadata
    streamed = AIMessageChunk("")
    for chunk in chat.bind_tools([get_weather]).stream(WEATHER[0]["content"]):
        streamed += chunk
    assert [(call["name"], call["args"]) for call in streamed.tool_calls] == [
        ("get_weather", {"city": "Ljubljana"})
    ]


@pytest.mark.parametrize("method", ["json_schema", "function_calling"])
def test_langchain_structured_output(chat: Any, method: str) -> None:
    class Verdict(BaseModel):
        """A verdict."""

        good: bool

    assert isinstance(chat.with_structured_output(Verdict, method=method).invoke("Is it good?"), Verdict)


@pytest.mark.skipif(importlib.util.find_spec("litellm") is None, reason="LiteLLM is not installed")
@pytest.mark.filterwarnings("default")  # LiteLLM's own
def test_litellm(server: Running, weather_tool: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # it downloads another one
    import litellm

    options = {
        "model": "openai/nano",
        "api_base": f"{server.url}/v1",
        "api_key": "none",
        "temperature": 0,
        "max_tokens": 80,
        "num_retries": 0,
    }
    whole = litellm.completion(messages=HELLO, **options)
    streamed = litellm.completion(messages=HELLO, stream=True, **options)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in streamed)
    assert text == whole.choices[0].message.content
    called = litellm.completion(messages=WEATHER, tools=[weather_tool], **options)
    (call,) = called.choices[0].message.tool_calls
    assert json.loads(call.function.arguments) == {"city": "Ljubljana"}
    for provider in ("ollama", "ollama_chat"):  # the first says no content type
        ollama = options | {"model": f"{provider}/nano", "api_base": server.url}
        assert litellm.completion(messages=HELLO, **ollama).choices[0].message.content


@pytest.mark.needs("curl")
def test_curl(server: Running) -> None:
    def curl(*arguments: str) -> str:
        done = subprocess.run(
            ["curl", "--silent", "--show-error", *arguments], capture_output=True, text=True, check=True
        )
        return done.stdout

    body = json.dumps({"model": "nano", "messages": HELLO, "max_tokens": 8})
    header = ("--header", "content-type: application/json")
    answer = json.loads(curl(f"{server.url}/v1/chat/completions", *header, "--data", body))
    assert answer["choices"][0]["message"]["content"]
    streamed = json.dumps({"model": "nano", "messages": HELLO, "max_tokens": 8, "stream": True})
    assert curl(f"{server.url}/v1/chat/completions", "--no-buffer", *header, "--data", streamed).endswith(
        "data: [DONE]\n\n"
    )
    prompt = json.dumps({"model": "nano", "prompt": "Hello!", "options": {"num_predict": 8}, "stream": False})
    assert json.loads(curl(f"{server.url}/api/generate", "--data", prompt))["response"]
    assert json.loads(curl(f"{server.url}/v1/models"))["data"][0]["id"] == "nano"
    assert json.loads(curl(f"{server.url}/health"))["status"] == "ok"


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


OPEN_WEBUI: dict[str, Any] = {
    "messages": [{"role": "system", "content": "Be brief."}, *HELLO],
    "temperature": 0.8,
    "top_p": 0.9,
    "frequency_penalty": 0.2,
    "presence_penalty": 0,
    "seed": 7,
    "max_tokens": 12,
    "stop": ["###"],
    "logit_bias": {"5": -100},
    "reasoning_effort": "low",
    "params": {},
    "chat_id": "5d2e",
    "session_id": "x",
}
OPEN_WEBUI_TITLE = {
    "messages": [
        {
            "role": "user",
            "content": '### Task:\nGenerate a short title of the chat.\n### Output:\nJSON: {"title": "…"}\n'
            "### Chat History:\n<chat_history>\nUSER: Hello!\nASSISTANT: Hi.\n</chat_history>",
        }
    ],
    "max_completion_tokens": 20,
}
CONTINUE: dict[str, Any] = {
    "messages": [{"role": "system", "content": "You help."}, {"role": "user", "content": text(QUESTION)}],
    "max_tokens": 80,
    "temperature": 0,
    "tools": [function("get_weather", "city", strict=False)],
    "parallel_tool_calls": False,
    "prediction": {"type": "content", "content": "x"},
}
VERCEL: dict[str, Any] = {
    "messages": [
        {"role": "user", "content": QUESTION},
        {
            "role": "assistant",
            "content": None,
            "reasoning_content": "Hm.",
            "tool_calls": [
                {
                    "type": "function",
                    "id": "call_1",
                    "function": {"name": "get_weather", "arguments": '{"city": "Ljubljana"}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": '{"temperature_c": 12}'},
    ],
    "tools": [function("get_weather", "city")],
    "tool_choice": "auto",
    "user": "someone",
    "top_p": 1,
    "seed": 1,
    "reasoning_effort": "minimal",
    "verbosity": "low",
}
FRAMEWORKS = [
    (SMOLAGENTS, "final_answer"),
    (CREWAI, "12"),
    (OPEN_WEBUI, "content"),
    (OPEN_WEBUI_TITLE, "content"),
    (CONTINUE, "get_weather"),
    (VERCEL, "12"),
]
"""Requests written after the clients' own sources: which fields they send, and of which types."""


@pytest.mark.parametrize(("body", "expected"), FRAMEWORKS)
def test_requests_as_frameworks_send_them(server: Running, body: dict[str, Any], expected: str) -> None:
    answer = httpx.post(f"{server.url}/v1/chat/completions", json={"model": "nano", **body})
    assert answer.status_code == 200, answer.text
    assert expected in json.dumps(answer.json()["choices"][0]["message"])
    streamed = {"model": "nano", **body, "stream": True, "stream_options": {"include_usage": True}}
    events = httpx.post(f"{server.url}/v1/chat/completions", json=streamed)
    assert events.status_code == 200, events.text
    assert events.text.endswith("data: [DONE]\n\n")


def test_a_completion_in_continues_editor(server: Running) -> None:
    body = {
        "model": "nano",
        "prompt": "<|fim_prefix|>def add(a, b):\n    return <|fim_suffix|>\n<|fim_middle|>",
        "max_tokens": 8,
        "temperature": 0.01,
        "top_p": None,
        "frequency_penalty": None,
        "presence_penalty": None,
        "stop": ["<|endoftext|>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "\n\n", "```"],
        "stream": True,
    }
    response = httpx.post(f"{server.url}/v1/completions", json=body)
    *chunks, end = [line.removeprefix("data: ") for line in response.text.splitlines() if line]
    assert end == "[DONE]"
    assert all(json.loads(chunk)["object"] == "text_completion" for chunk in chunks)
    assert json.loads(chunks[-1])["choices"][0]["finish_reason"] in ("stop", "length")


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
