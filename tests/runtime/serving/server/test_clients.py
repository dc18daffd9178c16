"""Popular clients, unchanged: LangChain, LiteLLM and curl."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import httpx
import pytest
from langchain_core.messages import AIMessageChunk, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

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
    assert json.loads(curl(f"{server.ollama_url}/api/generate", "--data", prompt))["response"]
    assert json.loads(curl(f"{server.url}/v1/models"))["data"][0]["id"] == "nano"
    assert json.loads(curl(f"{server.url}/health"))["status"] == "ok"


QUESTION = WEATHER[0]["content"]


def text(content: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": content}]


def function(name: str, argument: str, **fields: Any) -> dict[str, Any]:
    properties = {argument: {"type": "string", "description": f"The {argument}."}}
    parameters = {"type": "object", "properties": properties, "required": [argument]}
    described = {"name": name, "description": name, "parameters": parameters, **fields}
    return {"type": "function", "function": described}


def called(**fields: Any) -> list[dict[str, Any]]:
    """A message that calls ``get_weather``, and its output."""
    made = {"name": "get_weather", "arguments": '{"city": "Ljubljana"}'}
    calls = [{"id": "call_1", "type": "function", "function": made}]
    message = {"role": "assistant", "content": None, "tool_calls": calls, **fields}
    return [message, {"role": "tool", "tool_call_id": "call_1", "content": "12 C in Ljubljana"}]


SMOLAGENTS: dict[str, Any] = {
    "messages": [
        {"role": "system", "content": text("You are an expert assistant who can solve any task by tools.")},
        {"role": "user", "content": text(f"New task:\n{QUESTION}")},
        {"role": "assistant", "content": text("Calling tools:\n[{'id': 'call_1', 'function': {}}]")},
        {"role": "user", "content": [*text("Call id: call_1\n"), *text("Observation:\n12 C in Ljubljana")]},
    ],
    "stop": ["Observation:", "Calling tools:"],
    "tools": [function("get_weather", "city"), function("final_answer", "answer")],
    "tool_choice": "required",
    "max_tokens": 80,
}
"""The second request of a ToolCallingAgent: contents in parts, a history of texts, a required call."""
CREWAI: dict[str, Any] = {
    "messages": [{"role": "system", "content": "You help."}, *WEATHER, *called()],
    "tools": [function("get_weather", "city", strict=True)],
    "tool_choice": "auto",
    "temperature": 0.0,
    "frequency_penalty": 0.0,
    "stream": False,
}
OPEN_WEBUI: dict[str, Any] = {
    "messages": [{"role": "system", "content": "Be brief."}, *HELLO],
    "temperature": 0.8,
    "top_p": 0.9,
    "seed": 7,
    "max_tokens": 12,
    "stop": ["###"],
    "logit_bias": {"5": -100},
    "params": {},
    "chat_id": "5d2e",
    "session_id": "x",
}
CONTINUE: dict[str, Any] = {
    "messages": [{"role": "system", "content": "You help."}, {"role": "user", "content": text(QUESTION)}],
    "max_tokens": 80,
    "tools": [function("get_weather", "city", strict=False)],
    "parallel_tool_calls": False,
    "prediction": {"type": "content", "content": "x"},
}
VERCEL: dict[str, Any] = {
    "messages": [*WEATHER, *called(reasoning_content="Hm.")],
    "tools": [function("get_weather", "city")],
    "user": "someone",
    "metadata": {"a": "b"},
    "store": True,
    "reasoning_effort": "minimal",
    "verbosity": "low",
}
FRAMEWORKS = [
    (SMOLAGENTS, "final_answer"),
    (CREWAI, "12"),
    (OPEN_WEBUI, "content"),
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
