"""Requests that are refused: by the guard, by the limit, and for their bodies."""

from __future__ import annotations

import json
import math
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from agentrt.runtime import LocalRuntime
from agentrt.runtime.serving.http.errors import OLLAMA_ROUTES
from agentrt.runtime.serving.http.identity import Tokens
from tests.runtime.serving.http.serving import Start, until
from tests.runtime.serving.server.conftest import HELLO
from tests.runtime.serving.server.test_bounds import BODIES

REQUEST: dict[str, Any] = {"model": "nano", "messages": HELLO, "max_tokens": 2}
POST = "/v1/chat/completions"


def error_of(response: httpx.Response) -> dict[str, Any]:
    error: dict[str, Any] = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    return error


def test_the_guard_stands_before_the_runtime(start: Start) -> None:
    server = start(tokens=Tokens([("notes", "t" * 20)]), max_body_bytes=1000)
    with httpx.Client(base_url=server.url) as http:
        assert http.get("/v1/models").status_code == 401
        assert http.get("/metrics").status_code == 401
        assert http.get("/health").json() == {"status": "ok"}
        assert http.post("/health").status_code == 401
        http.headers["authorization"] = "Bearer " + "t" * 20
        assert http.get("/v1/models").status_code == 200
        assert http.get("/v1/models", headers={"host": "evil.example"}).status_code == 421
        refused = http.post(POST, json=REQUEST, headers={"origin": "https://evil.example"})
        assert (refused.status_code, error_of(refused)["code"]) == (403, "invalid_origin")
        assert http.post(POST, json=REQUEST | {"user": "x" * 1000}).status_code == 413
        assert http.post(POST, json=REQUEST, headers={"origin": server.url}).status_code == 200


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b'"\\ud800"',
        b"[" * 5000,
        b'{"a":' * 5000,
        b"3",
        b"null",
        b"[]",
        json.dumps(REQUEST | {"temperature": math.nan}).encode(),
        json.dumps(REQUEST | {"temperature": math.inf}).encode(),
        json.dumps(REQUEST).replace("2}", "2e999}").encode(),
        json.dumps(REQUEST).replace("2}", "9" * 5000 + "}").encode(),
        json.dumps(REQUEST).replace("Hello!", "\\ud800").encode(),
        json.dumps(REQUEST | {"messages": [{"role": "user", "content": "x\x00y"}] * 2000}).encode(),
    ],
)
def test_bodies_that_are_not_requests(http: httpx.Client, content: bytes) -> None:
    response = http.post(POST, content=content, headers={"content-type": "application/json"})
    assert response.status_code == 400
    assert error_of(response)["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", None]
)
def test_bodies_of_another_kind(http: httpx.Client, kind: str | None) -> None:
    headers = {} if kind is None else {"content-type": kind}
    response = http.post(POST, content=json.dumps(REQUEST), headers=headers)
    assert response.status_code == 415
    error_of(response)


def test_unknown_routes(http: httpx.Client) -> None:
    for method, path, status in (
        ("GET", "/v1/nothing", 404),
        ("GET", POST, 405),
        ("DELETE", "/v1/models", 405),
        ("GET", "/docs", 404),
        ("GET", "/v1/models/../../etc/passwd", 404),
        ("GET", "/v1/models/gpt-4", 404),
    ):
        response = http.request(method, path)
        assert response.status_code == status, path
        error_of(response)


def test_more_requests_than_the_limit(start: Start, gate: Any) -> None:
    server = start(max_requests=2)
    statuses: list[int] = []

    def ask() -> None:
        statuses.append(httpx.post(f"{server.url}{POST}", json=REQUEST, timeout=60).status_code)

    threads = [threading.Thread(target=ask) for _ in range(2)]
    threads[0].start()
    gate.arrived()  # the first one is in the engine, which is halted
    threads[1].start()
    until(lambda: server.admission.active == 2)
    response = httpx.post(f"{server.url}{POST}", json=REQUEST)
    assert (response.status_code, error_of(response)["code"]) == (429, "rate_limit_exceeded")
    assert response.headers["retry-after"] == "1"
    gate.open()
    for thread in threads:
        thread.join()
    assert statuses == [200, 200]
    assert server.admission.active == 0
    assert httpx.post(f"{server.url}{POST}", json=REQUEST).status_code == 200


def test_background_requests_refuse_no_reactive_one(start: Start, gate: Any) -> None:
    """Those of one app leave places to reactive requests, and to background requests of other apps."""
    server = start(max_requests=8, tokens=Tokens([("mail", "m" * 20), ("notes", "n" * 20)]))
    mail, notes = ({"authorization": f"Bearer {letter * 20}"} for letter in "mn")
    background = REQUEST | {"service_tier": "flex"}
    with ThreadPoolExecutor(12) as threads, httpx.Client(base_url=server.url, timeout=60) as http:
        asked = []

        def ask(body: Any, headers: dict[str, str]) -> None:
            before = server.admission.active
            asked.append(threads.submit(http.post, POST, json=body, headers=headers))
            until(lambda: server.admission.active > before or asked[-1].done())
            assert not asked[-1].done(), asked[-1].result().text

        for _ in range(6):  # its own two, and the four that come first
            ask(background, mail)
        refused = http.post(POST, json=background, headers=mail)
        assert (refused.status_code, error_of(refused)["code"]) == (429, "rate_limit_exceeded")
        ask(background, notes)
        for headers in (mail, notes):
            ask(REQUEST, headers)
        gate.open()
        assert [each.result().status_code for each in asked] == [200] * 9
    assert server.admission.active == 0


def test_a_fault_reveals_no_details(
    http: httpx.Client, runtime: LocalRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise RuntimeError("secret detail")

    monkeypatch.setattr(runtime._input_processor, "process", fail)
    response = http.post(POST, json=REQUEST)
    assert (response.status_code, error_of(response)["type"]) == (500, "server_error")
    assert "secret" not in response.text


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


def test_where_a_client_takes_its_token(start: Start) -> None:
    server = start(tokens=Tokens([("mine", "t" * 20)]))
    for path, where in {CHAT: "api_key in OpenAI's clients", "/api/chat": "OLLAMA_API_KEY"}.items():
        status, message = refused(httpx.post(f"{server.url}{path}", json={}))
        assert (status, where in message) == (401, True)
