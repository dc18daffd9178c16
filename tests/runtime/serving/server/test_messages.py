"""What errors say where a client is set up wrongly: which path, header, body or field to change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from agentrt.runtime.serving.http.errors import OLLAMA_ROUTES
from agentrt.runtime.serving.http.identity import Tokens
from tests.runtime.serving.http.serving import Running
from tests.runtime.serving.server.conftest import HELLO
from tests.runtime.serving.server.test_bounds import BODIES

JSON = {"content-type": "application/json"}
CHAT = "/v1/chat/completions"


def refused(response: httpx.Response) -> tuple[int, str]:
    error = response.json()["error"]
    return response.status_code, error if isinstance(error, str) else error["message"]


@pytest.mark.parametrize("path", [path for path in BODIES if not path.startswith(OLLAMA_ROUTES)])
@pytest.mark.parametrize(
    ("given", "said"),
    [
        (None, "the body has no content type"),
        ("application/x-www-form-urlencoded", "the body is application/x-www-form-urlencoded"),
        ("text/plain; charset=utf-8", "the body is text/plain"),
    ],
)
def test_a_body_that_is_not_said_to_be_json(
    http: httpx.Client, path: str, given: str | None, said: str
) -> None:
    headers = {} if given is None else {"content-type": given}
    status, message = refused(http.post(path, content=b'{"model": "nano"}', headers=headers))
    assert status == 415
    assert message.startswith(said)
    assert "'content-type: application/json'" in message


@pytest.mark.parametrize(
    "given", ["application/json; charset=utf-8", "Application/JSON", "application/x+json"]
)
def test_every_kind_of_json_is_read(http: httpx.Client, given: str) -> None:
    body = b'{"messages": [{"role": "user", "content": "Hello!"}], "max_tokens": 1}'
    assert http.post(CHAT, content=body, headers={"content-type": given}).status_code == 200


@pytest.mark.parametrize("path", BODIES)
def test_an_empty_body(http: httpx.Client, path: str) -> None:
    for headers in ({}, JSON):
        assert refused(http.post(path, content=b"", headers=headers)) == (
            400,
            "the body is empty. Send one in JSON.",
        )


@pytest.mark.parametrize("body", [b"[]", b"null", b"3", b'"x"', b"true"])
def test_a_body_that_is_no_object(http: httpx.Client, body: bytes) -> None:
    for path in (CHAT, "/api/chat", "/v1/responses"):
        answer = refused(http.post(path, content=body, headers=JSON))
        assert answer == (400, "the body is no JSON object. Send one: {…}.")
    if body != b"[]":
        answer = refused(http.post("/v1/cache-tool-output/x", content=body, headers=JSON))
        assert answer == (400, "the body is no JSON array. Send one: [{…}].")


def test_a_body_whose_fields_do_not_go_together(http: httpx.Client) -> None:
    answer = refused(http.post("/tokenize", json={"prompt": "x", "messages": HELLO}))
    assert answer == (400, "give either prompt or messages.")


def test_a_field_that_is_missing(http: httpx.Client) -> None:
    assert refused(http.post(CHAT, json={})) == (400, "messages: is missing. Send it.")
    assert refused(http.post("/api/chat", json={"model": "nano"})) == (400, "messages: is missing. Send it.")


@pytest.mark.parametrize("path", ["/chat/completions", "/models", "/v1", "/v2/chat/completions", "/x"])
def test_a_base_url_without_v1(http: httpx.Client, path: str) -> None:
    status, message = refused(http.post(path, json={}))
    assert status == 404
    assert message.startswith(f"there is no route {path}. GET /openapi.json lists")
    assert message.endswith("let the client's base URL end in /v1.")


@pytest.mark.parametrize("path", ["/v1/audio/speech", "/v1/v1/models", "/api/pull"])
def test_a_route_that_there_is_not(http: httpx.Client, path: str) -> None:
    answer = refused(http.post(path, json={}))
    assert answer == (404, f"there is no route {path}. GET /openapi.json lists those there are.")


def test_a_method_that_a_route_does_not_have(http: httpx.Client) -> None:
    assert refused(http.post("/")) == (405, "POST is no method of /. Use GET or HEAD.")  # the live page
    response = http.get(CHAT)
    assert refused(response) == (405, f"GET is no method of {CHAT}. Use POST.")
    assert response.headers["allow"] == "POST"
    assert response.json()["error"]["code"] == "method_not_allowed"


@pytest.mark.parametrize(
    "tool", [{"type": "web_search"}, {"type": "mcp", "server_label": "x"}, {}, "web_search"]
)
def test_tools_of_responses_are_in_the_form_of_responses(http: httpx.Client, tool: Any) -> None:
    function = {"type": "function", "name": "x"}
    answer = http.post("/v1/responses", json={"input": "Hello!", "tools": [function, tool]})
    status, message = refused(answer)
    assert (status, answer.json()["error"]["param"]) == (400, "tools[1]")
    assert message.endswith("{'type': 'function', 'name': …, 'description': …, 'parameters': {…}}.")
    assert ("'web_search'" in message) == (tool == {"type": "web_search"})


@pytest.mark.parametrize("choice", [{"type": "web_search"}, {"type": "allowed_tools"}, {}, "any"])
def test_the_choice_of_a_tool_of_responses(http: httpx.Client, choice: Any) -> None:
    tools = [{"type": "function", "name": "x"}]
    answer = http.post("/v1/responses", json={"input": "Hello!", "tools": tools, "tool_choice": choice})
    assert answer.json()["error"]["param"] == "tool_choice"
    assert "{'type': 'function', 'name': …}" in refused(answer)[1]


def test_ollamas_names_of_fields(http: httpx.Client) -> None:
    messages = [*HELLO, {"role": "tool", "tool_name": 3, "content": "x"}]
    answer = refused(http.post("/api/chat", json={"model": "nano", "messages": messages}))
    assert answer == (400, "messages[1].tool_name: must be text, not int. Give a string.")
    named = [*HELLO, {"role": "user", "name": 3, "content": "x"}]
    answer = refused(http.post("/api/chat", json={"model": "nano", "messages": named}))
    assert answer == (400, "messages[1].name: must be text, not int. Give a string.")


def test_where_a_client_takes_its_token(start: Callable[..., Running]) -> None:
    server = start(tokens=Tokens([("mine", "t" * 20)]))
    for path, where in {CHAT: "api_key in OpenAI's clients", "/api/chat": "OLLAMA_API_KEY"}.items():
        status, message = refused(httpx.post(f"{server.url}{path}", json={}))
        assert (status, where in message) == (401, True)
