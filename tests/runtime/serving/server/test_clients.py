"""Popular clients, unchanged: LangChain, LiteLLM and curl."""

from __future__ import annotations

import importlib.util
import json
import subprocess
from typing import Any

import pytest
from langchain_core.messages import AIMessageChunk, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel

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
