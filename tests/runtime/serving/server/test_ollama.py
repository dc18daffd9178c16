"""Requests in the form of Ollama, as its clients send them."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import httpx
import pytest

from agentrt.runtime import LocalRuntime, RawPrompt
from agentrt.runtime.serving.http.identity import Tokens
from tests.runtime.serving.http.serving import Start
from tests.runtime.serving.server.conftest import HELLO, WEATHER

CHAT: dict[str, Any] = {"model": "nano", "messages": HELLO, "options": {"num_predict": 10}}
TOO_LONG = {"model": "nano", "prompt": "word " * 20000}


def lines_of(response: httpx.Response) -> list[Any]:
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "application/x-ndjson"
    return [json.loads(line) for line in response.text.splitlines()]


def test_a_chat_is_streamed_by_default(http: httpx.Client, runtime: LocalRuntime) -> None:
    expected = runtime.generate(HELLO, max_tokens=10)
    response = http.post("/api/chat", json=CHAT, headers={"x-agentrt-priority": "proactive"})
    assert response.headers["x-agentrt-priority"] == "proactive"
    lines = lines_of(response)
    assert "".join(line["message"]["content"] for line in lines) == expected.text
    assert all(line["message"]["role"] == "assistant" for line in lines)
    assert [line["done"] for line in lines] == [*[False] * (len(lines) - 1), True]
    assert all(datetime.fromisoformat(line["created_at"]).tzinfo is not None for line in lines)
    last = lines[-1]
    assert (last["model"], last["done_reason"]) == ("nano", "length")
    assert (last["prompt_eval_count"], last["eval_count"]) == (expected.usage.prompt_tokens, 10)
    for name in ("total_duration", "load_duration", "prompt_eval_duration", "eval_duration"):
        assert isinstance(last[name], int)
        assert 0 <= last[name] <= last["total_duration"]
    whole = http.post("/api/chat", json=CHAT | {"stream": False}).json()
    assert (whole["message"]["content"], whole["done"], whole["eval_count"]) == (expected.text, True, 10)


def test_options_are_those_of_the_runtime(http: httpx.Client, runtime: LocalRuntime) -> None:
    options = {
        "num_predict": 12, "temperature": 1.5, "seed": 3, "top_k": 20, "top_p": 0.9, "min_p": 0.01,
        "repeat_penalty": 1.2, "frequency_penalty": 0.5, "presence_penalty": 0.5, "stop": ["###"],
        "num_ctx": 4096, "mirostat": 1,
    }  # fmt: skip
    expected = runtime.generate(
        HELLO, max_tokens=12, temperature=1.5, seed=3, top_k=20, top_p=0.9, min_p=0.01,
        repetition_penalty=1.2, frequency_penalty=0.5, presence_penalty=0.5, stop=["###"],
    )  # fmt: skip
    body = CHAT | {"options": options, "stream": False, "keep_alive": "5m", "think": False}
    assert http.post("/api/chat", json=body).json()["message"]["content"] == expected.text


def test_a_call_and_its_result(http: httpx.Client, weather_tool: dict[str, Any]) -> None:
    body = {"model": "nano", "messages": WEATHER, "tools": [weather_tool]}
    for stream in (True, False):
        response = http.post("/api/chat", json=body | {"stream": stream})
        lines = lines_of(response) if stream else [response.json()]
        (made,) = [call for line in lines for call in line["message"].get("tool_calls", ())]
        assert made == {"function": {"name": "get_weather", "arguments": {"city": "Ljubljana"}}}
        assert (lines[-1]["done"], lines[-1]["done_reason"]) == (True, "stop")
        history = [
            *WEATHER,
            {"role": "assistant", "content": "", "tool_calls": [made]},
            {"role": "tool", "tool_name": "get_weather", "content": '{"temperature_c": 12}'},
        ]
        answer = http.post("/api/chat", json=body | {"messages": history, "stream": False}).json()
        assert "12" in answer["message"]["content"]


def test_a_format(http: httpx.Client) -> None:
    schema = {
        "type": "object",
        "properties": {"good": {"type": "boolean"}},
        "required": ["good"],
        "additionalProperties": False,
    }
    body = {"model": "nano", "messages": HELLO, "format": schema, "stream": False}
    answer = http.post("/api/chat", json=body).json()
    assert isinstance(json.loads(answer["message"]["content"])["good"], bool)
    any_object = http.post("/api/chat", json=CHAT | {"format": "json", "stream": False}).json()
    assert any_object["message"]["content"].startswith("{")


def test_a_prompt(http: httpx.Client, runtime: LocalRuntime) -> None:
    body: dict[str, Any] = {"model": "nano", "prompt": "Hello!", "options": {"num_predict": 8}}
    expected = runtime.generate(HELLO, max_tokens=8).text
    lines = lines_of(http.post("/api/generate", json=body))
    assert "".join(line["response"] for line in lines) == expected
    assert lines[-1]["done"] is True
    whole = http.post("/api/generate", json=body | {"stream": False}).json()
    assert whole["response"] == expected
    system = [{"role": "system", "content": "Be brief."}, *HELLO]
    told = http.post("/api/generate", json=body | {"stream": False, "system": "Be brief."}).json()
    assert told["response"] == runtime.generate(system, max_tokens=8).text
    raw = http.post("/api/generate", json=body | {"stream": False, "raw": True}).json()
    assert raw["response"] == runtime.generate(RawPrompt("Hello!"), max_tokens=8).text


def test_an_empty_prompt_loads_the_model(http: httpx.Client) -> None:
    answer = http.post("/api/generate", json={"model": "nano"}).json()
    assert (answer["response"], answer["done"], answer["done_reason"]) == ("", True, "load")


@pytest.mark.parametrize("name", ["nano", "nano:latest"])
def test_models(http: httpx.Client, name: str) -> None:
    (listed,) = http.get("/api/tags").json()["models"]
    assert (listed["name"], listed["model"]) == ("nano", "nano")
    assert listed["size"] > 0
    shown = http.post("/api/show", json={"model": name}).json()
    assert shown["capabilities"] == ["completion", "tools"]
    assert shown["model_info"]["agentrt.context_length"] == 2048
    assert http.post("/api/chat", json=CHAT | {"model": name, "stream": False}).json()["model"] == name
    assert http.get("/api/version").json()["version"]


@pytest.mark.parametrize(
    ("path", "body", "status", "says"),
    [
        ("/api/chat", {"model": "none", "messages": HELLO}, 404, "'none' is not served"),
        ("/api/chat", {"messages": HELLO}, 400, "model"),
        ("/api/chat", {**CHAT, "keep_alive": []}, 400, "keep_alive"),
        ("/api/chat", {**CHAT, "messages": [HELLO[0] | {"images": ["AAAA"]}]}, 400, "messages[0].images:"),
        ("/api/chat", {**CHAT, "options": {"temperature": -1}}, 400, "options.temperature:"),
        ("/api/chat", {**CHAT, "options": {"repeat_penalty": -1}}, 400, "options.repeat_penalty:"),
        ("/api/chat", {**CHAT, "format": {"type": "bogus"}}, 400, "format:"),
        ("/api/generate", {"model": "nano", "prompt": " ", "system": "Help."}, 400, "prompt:"),
        ("/api/generate", {**TOO_LONG, "system": "Help."}, 400, "Shorten the prompt, or use a model"),
        ("/api/chat", {**CHAT, "options": {"top_k": "x"}}, 400, "top_k"),
        ("/api/chat", {**CHAT, "format": "xml"}, 400, "format"),
        ("/api/chat", {**CHAT, "tools": [3]}, 400, "tools[0]"),
        ("/api/generate", {"model": "nano", "prompt": "x", "suffix": "y"}, 400, "suffix"),
        ("/api/generate", {"model": "nano", "prompt": "x", "context": [1, 2]}, 400, "context"),
        ("/api/generate", {"model": "nano", "prompt": "x", "template": "{{ x }}"}, 400, "template"),
        ("/api/generate", TOO_LONG, 400, "the prompt is too long"),
        ("/api/show", {"model": "none"}, 404, "not served"),
    ],
)
def test_errors_are_texts(
    http: httpx.Client, path: str, body: dict[str, Any], status: int, says: str
) -> None:
    response = http.post(path, json=body)
    assert response.status_code == status, response.text
    assert says in response.json()["error"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/api/chat", 405), ("POST", "/api/x", 404), ("GET", "/api/", 404)],
)
def test_errors_of_routing_are_texts(http: httpx.Client, method: str, path: str, status: int) -> None:
    response = http.request(method, path)
    assert response.status_code == status
    assert isinstance(response.json()["error"], str)


FORM = "application/x-www-form-urlencoded"
CONTENT_TYPES = [None, FORM, "text/plain; charset=utf-8", "multipart/form-data"]


@pytest.mark.parametrize("kind", CONTENT_TYPES)
def test_a_body_of_any_content_type_is_read_as_json(http: httpx.Client, kind: str | None) -> None:
    headers = {} if kind is None else {"content-type": kind}
    expected = http.post("/api/chat", json=CHAT | {"stream": False}).json()["message"]
    body = json.dumps(CHAT | {"stream": False})
    assert http.post("/api/chat", content=body, headers=headers).json()["message"] == expected
    for path in ("/api/generate", "/api/show"):
        assert http.post(path, content=b'{"model": "nano"}', headers=headers).status_code == 200
    wrong = http.post("/api/chat", content=b"model=nano", headers=headers)
    assert (wrong.status_code, wrong.json()["error"][:20]) == (400, "the body is not JSON")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"host": "evil.example", "origin": "http://evil.example"}, 421),
        ({"authorization": ""}, 401),
    ],
)
def test_no_content_type_lets_a_web_page_in(start: Start, headers: dict[str, str], status: int) -> None:
    """Without a preflight a page can send forms and texts to any server, but not without its ``Origin``."""
    server = start(tokens=Tokens([("mine", "t" * 20)]))
    sent = {"authorization": "Bearer " + "t" * 20, **headers}
    with httpx.Client(base_url=server.ollama_url, headers=sent) as http:
        for path in ("/api/chat", "/api/generate", "/api/embed", "/api/embeddings", "/api/show"):
            for kind in CONTENT_TYPES:
                said = {} if kind is None else {"content-type": kind}
                assert http.post(path, content=json.dumps(CHAT), headers=said).status_code == status
