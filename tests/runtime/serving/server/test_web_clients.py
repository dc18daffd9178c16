"""Requests in the shapes of Open WebUI, Continue and the Vercel AI SDK, replayed.

The bodies are written for these tests after the clients' own sources: which fields they send, of which types,
and what they read of the answers.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from agentrt.runtime.serving.http.identity import Tokens
from tests.runtime.serving.http.serving import Running
from tests.runtime.serving.server.conftest import HELLO, WEATHER

OPEN_WEBUI_HEADERS = {
    "authorization": "Bearer " + "t" * 20,
    "content-type": "application/json",
    "X-OpenWebUI-User-Name": "Ada",
    "X-OpenWebUI-User-Id": "9b1c",
    "X-OpenWebUI-User-Role": "admin",
    "X-OpenWebUI-Chat-Id": "5d2e",
}
TITLE_TASK = (
    '### Task:\nGenerate a short title of the chat.\n### Output:\nJSON: {"title": "…"}\n'
    "### Chat History:\n<chat_history>\nUSER: Hello!\nASSISTANT: Hi.\n</chat_history>"
)


def chunks_of(response: httpx.Response) -> list[Any]:
    """Return the chunks of a stream, as a client parses them."""
    assert response.status_code == 200, response.text
    assert response.headers["content-type"].startswith("text/event-stream")
    events = [line.removeprefix("data: ") for line in response.text.splitlines() if line.startswith("data: ")]
    assert events[-1] == "[DONE]"
    return [json.loads(event) for event in events[:-1]]


def text_of(chunks: list[Any]) -> str:
    return "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks if chunk["choices"])


def calls_of(chunks: list[Any]) -> list[dict[str, Any]]:
    """Return the calls of a stream, put together by their index."""
    calls: dict[int, dict[str, Any]] = {}
    for chunk in chunks:
        for choice in chunk["choices"]:
            for delta in choice["delta"].get("tool_calls") or ():
                call = calls.setdefault(delta["index"], {"id": delta.get("id"), "name": "", "arguments": ""})
                call["name"] += delta["function"].get("name") or ""
                call["arguments"] += delta["function"].get("arguments") or ""
    return [calls[index] for index in sorted(calls)]


class TestOpenWebUI:
    """The server side of Open WebUI, and its direct connections from the browser."""

    @pytest.fixture
    def ui(self, start: Callable[..., Running]) -> Any:
        server = start(tokens=Tokens([("ui", "t" * 20)]))
        with httpx.Client(base_url=f"{server.url}/v1", headers=OPEN_WEBUI_HEADERS, timeout=60) as client:
            yield client

    def test_the_list_of_models(self, ui: httpx.Client) -> None:
        listed = ui.get("/models").json()
        assert listed["object"] == "list"
        (model,) = listed["data"]
        assert (model["id"], model["object"]) == ("nano", "model")
        assert isinstance(model["created"], int)
        assert isinstance(model["owned_by"], str)

    def test_a_chat(self, ui: httpx.Client) -> None:
        body = {
            "stream": True,
            "model": "nano",
            "messages": [{"role": "system", "content": "Be brief."}, *HELLO],
            "stream_options": {"include_usage": True},
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
        chunks = chunks_of(ui.post("/chat/completions", json=body))
        assert text_of(chunks)
        assert chunks[-1]["choices"] == []
        assert chunks[-1]["usage"]["total_tokens"] > 0
        assert [chunk["choices"][0]["finish_reason"] for chunk in chunks[:-1]][-1] in ("stop", "length")

    @pytest.mark.parametrize("limit", ["max_tokens", "max_completion_tokens"])
    def test_a_title(self, ui: httpx.Client, limit: str) -> None:
        task = {"role": "user", "content": TITLE_TASK}
        body = {"model": "nano", "messages": [task], "stream": False, limit: 20}
        answer = ui.post("/chat/completions", json=body).json()
        assert isinstance(answer["choices"][0]["message"]["content"], str)

    def test_a_call_and_its_result(self, ui: httpx.Client, weather_tool: dict[str, Any]) -> None:
        body = {"model": "nano", "stream": True, "messages": WEATHER, "tools": [weather_tool]}
        (call,) = calls_of(chunks_of(ui.post("/chat/completions", json=body)))
        assert (call["name"], json.loads(call["arguments"])) == ("get_weather", {"city": "Ljubljana"})
        function = {"name": call["name"], "arguments": call["arguments"]}
        made = {"id": call["id"], "index": 0, "type": "function", "function": function}
        history = [
            *WEATHER,
            {"role": "assistant", "content": "", "tool_calls": [made]},
            {"role": "tool", "tool_call_id": call["id"], "content": '{"temperature_c": 12}'},
        ]
        answered = chunks_of(ui.post("/chat/completions", json=body | {"messages": history}))
        assert "12" in text_of(answered)

    def test_a_direct_connection_from_the_browser(self, start: Callable[..., Running]) -> None:
        origin = "http://localhost:3000"
        server = start(tokens=Tokens([("ui", "t" * 20)]), cors_origins=frozenset([origin]))
        asked = {
            "origin": origin,
            "access-control-request-method": "POST",
            "access-control-request-headers": "authorization,content-type",
        }
        url = f"{server.url}/v1/chat/completions"
        preflight = httpx.options(url, headers=asked)
        assert preflight.status_code == 200
        assert preflight.headers["access-control-allow-origin"] == origin
        headers = {"origin": origin, "authorization": "Bearer " + "t" * 20}
        body = {"model": "nano", "messages": HELLO, "max_tokens": 4, "stream": True}
        streamed = httpx.post(url, headers=headers, json=body)
        assert text_of(chunks_of(streamed))
        assert streamed.headers["access-control-allow-origin"] == origin
        listed = httpx.get(f"{server.url}/v1/models", headers=headers)
        assert listed.headers["access-control-allow-origin"] == origin


class TestContinue:
    """Continue's OpenAI adapter: chat, edits with tools, and completions in the editor."""

    @pytest.fixture
    def editor(self, server: Running) -> Any:
        headers = {"authorization": "Bearer none", "x-api-key": "none", "accept": "application/json"}
        with httpx.Client(base_url=f"{server.url}/v1", headers=headers, timeout=60) as client:
            yield client

    def test_a_chat_with_tools(self, editor: httpx.Client, weather_tool: dict[str, Any]) -> None:
        parts = [{"type": "text", "text": WEATHER[0]["content"]}]
        body = {
            "messages": [{"role": "system", "content": "You help."}, {"role": "user", "content": parts}],
            "model": "nano",
            "max_tokens": 80,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
            "tools": [{**weather_tool, "function": {**weather_tool["function"], "strict": False}}],
            "parallel_tool_calls": False,
            "prediction": {"type": "content", "content": "x"},
        }
        chunks = chunks_of(editor.post("/chat/completions", json=body))
        (call,) = calls_of(chunks)
        assert call["name"] == "get_weather"
        with_usage = [chunk for chunk in chunks if chunk.get("usage")]
        assert with_usage == chunks[-1:]

    def test_a_completion_in_the_editor(self, editor: httpx.Client) -> None:
        prompt = "<|fim_prefix|>def add(a, b):\n    return <|fim_suffix|>\n<|fim_middle|>"
        body = {
            "model": "nano",
            "prompt": prompt,
            "max_tokens": 8,
            "temperature": 0.01,
            "top_p": None,
            "frequency_penalty": None,
            "presence_penalty": None,
            "stop": ["<|endoftext|>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "\n\n", "```"],
            "stream": True,
        }
        response = editor.post("/completions", json=body)
        chunks = [
            json.loads(line.removeprefix("data: "))
            for line in response.text.splitlines()
            if line.startswith("data: {")
        ]
        assert response.text.endswith("data: [DONE]\n\n")
        assert all(chunk["object"] == "text_completion" for chunk in chunks)
        assert chunks[-1]["choices"][0]["finish_reason"] in ("stop", "length")

    def test_a_suffix_is_refused_by_name(self, editor: httpx.Client) -> None:
        body = {"model": "nano", "prompt": "def add(", "suffix": "return", "stream": True}
        response = editor.post("/completions", json=body)
        assert (response.status_code, response.json()["error"]["param"]) == (400, "suffix")


class TestVercel:
    """The Vercel AI SDK's provider for OpenAI-compatible servers."""

    @pytest.fixture
    def sdk(self, server: Running) -> Any:
        headers = {"authorization": "Bearer none", "user-agent": "ai-sdk/openai-compatible"}
        with httpx.Client(base_url=f"{server.url}/v1", headers=headers, timeout=60) as client:
            yield client

    def test_text_whole_and_streamed(self, sdk: httpx.Client) -> None:
        body = {
            "model": "nano",
            "user": "someone",
            "max_tokens": 10,
            "temperature": 0,
            "top_p": 1,
            "frequency_penalty": 0.1,
            "presence_penalty": 0.1,
            "stop": ["###"],
            "seed": 1,
            "reasoning_effort": "minimal",
            "verbosity": "low",
            "messages": [{"role": "system", "content": "Be brief."}, *HELLO],
        }
        whole = sdk.post("/chat/completions", json=body).json()
        (choice,) = whole["choices"]
        assert choice["message"]["role"] == "assistant"
        assert whole["usage"]["prompt_tokens_details"]["cached_tokens"] >= 0
        assert whole["usage"]["completion_tokens_details"]["reasoning_tokens"] == 0
        streamed = body | {"stream": True, "stream_options": {"include_usage": True}}
        chunks = chunks_of(sdk.post("/chat/completions", json=streamed))
        assert text_of(chunks) == choice["message"]["content"]
        assert len({chunk["id"] for chunk in chunks}) == 1
        assert all(isinstance(chunk["created"], int) for chunk in chunks)

    def test_a_call_and_its_result(self, sdk: httpx.Client, weather_tool: dict[str, Any]) -> None:
        named = {"type": "function", "function": {"name": "get_weather"}}
        body = {"model": "nano", "messages": WEATHER, "tools": [weather_tool], "tool_choice": named}
        chunks = chunks_of(sdk.post("/chat/completions", json=body | {"stream": True}))
        first = next(
            chunk["choices"][0]["delta"]["tool_calls"][0]
            for chunk in chunks
            if chunk["choices"][0]["delta"].get("tool_calls")
        )
        assert first["id"]
        assert first["function"]["name"] == "get_weather"
        assert first["type"] == "function"
        (call,) = calls_of(chunks)
        made = {"type": "function", "id": call["id"], "function": {k: call[k] for k in ("name", "arguments")}}
        history = [
            *WEATHER,
            {"role": "assistant", "content": None, "tool_calls": [made], "reasoning_content": "Hm."},
            {"role": "tool", "tool_call_id": call["id"], "content": '{"temperature_c": 12}'},
        ]
        more = {"messages": history, "tool_choice": "auto"}
        answer = sdk.post("/chat/completions", json=body | more).json()
        assert "12" in answer["choices"][0]["message"]["content"]

    def test_an_object(self, sdk: httpx.Client) -> None:
        schema = {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "type": "object",
            "properties": {"good": {"type": "boolean"}},
            "required": ["good"],
            "additionalProperties": False,
        }
        described = {"schema": schema, "strict": True, "name": "response", "description": "A verdict."}
        body = {
            "model": "nano",
            "messages": HELLO,
            "response_format": {"type": "json_schema", "json_schema": described},
        }
        answer = sdk.post("/chat/completions", json=body).json()
        assert isinstance(json.loads(answer["choices"][0]["message"]["content"])["good"], bool)

    def test_an_error_is_in_the_form_that_it_reads(self, sdk: httpx.Client) -> None:
        response = sdk.post("/chat/completions", json={"model": "none", "messages": HELLO, "stream": True})
        error = response.json()["error"]
        assert (response.status_code, error["code"]) == (404, "model_not_found")
        assert isinstance(error["message"], str)
        assert isinstance(error["type"], str)
