"""Requests that are refused: by the guard, by the limit, and for their bodies."""

from __future__ import annotations

import json
import math
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
        json.dumps(REQUEST | {"temperature": math.nan}).encode(),
        json.dumps(REQUEST).replace("2}", "2e999}").encode(),
        json.dumps(REQUEST).replace("Hello!", "\\ud800").encode(),
        json.dumps(REQUEST | {"messages": [{"role": "user", "content": "x\x00y"}] * 2000}).encode(),
    ],
)
def test_bodies_that_are_not_requests(http: httpx.Client, content: bytes) -> None:
    response = http.post(POST, content=content, headers={"content-type": "application/json"})
    assert response.status_code == 400
    assert error_of(response)["type"] == "invalid_request_error"


def test_more_requests_than_the_limit(start: Start, gate: Any) -> None:
    server = start(max_requests=2)

    def ask() -> httpx.Response:
        return httpx.post(f"{server.url}{POST}", json=REQUEST, timeout=60)

    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(ask)
        gate.arrived()  # the first one is in the engine, which is halted
        second = threads.submit(ask)
        until(lambda: server.admission.active == 2)
        response = ask()
        assert (response.status_code, error_of(response)["code"]) == (429, "rate_limit_exceeded")
        assert response.headers["retry-after"] == "1"
        gate.open()
        assert [first.result().status_code, second.result().status_code] == [200, 200]
    assert server.admission.active == 0
    assert ask().status_code == 200


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


def refused(response: httpx.Response) -> tuple[int, str]:
    error = response.json()["error"]
    return response.status_code, error if isinstance(error, str) else error["message"]


@pytest.mark.parametrize("path", BODIES)
def test_a_body_is_said_to_be_json_and_not_empty(http: httpx.Client, path: str) -> None:
    for headers in ({}, JSON):
        answer = refused(http.post(path, content=b"", headers=headers))
        assert answer == (400, "the body is empty. Send one in JSON.")
    kinds = (None, "application/x-www-form-urlencoded", "text/plain")
    for given in () if path.startswith(OLLAMA_ROUTES) else kinds:
        headers = {} if given is None else {"content-type": given}
        status, message = refused(http.post(path, content=b'{"model": "nano"}', headers=headers))
        assert status == 415
        assert message.startswith("the body has no content type" if given is None else f"the body is {given}")
        assert "'content-type: application/json'" in message


def test_every_kind_of_json_is_read(http: httpx.Client) -> None:
    body = b'{"messages": [{"role": "user", "content": "Hello!"}], "max_tokens": 1}'
    for given in ("application/json; charset=utf-8", "Application/JSON", "application/x+json"):
        assert http.post(POST, content=body, headers={"content-type": given}).status_code == 200


@pytest.mark.parametrize("body", [b"[]", b"null", b"3", b'"x"', b"true"])
def test_a_body_that_is_no_object(http: httpx.Client, body: bytes) -> None:
    for path in (POST, "/api/chat", "/v1/responses"):
        answer = refused(http.post(path, content=body, headers=JSON))
        assert answer == (400, "the body is no JSON object. Send one: {…}.")
    if body != b"[]":
        answer = refused(http.post("/v1/cache-tool-output/x", content=body, headers=JSON))
        assert answer == (400, "the body is no JSON array. Send one: [{…}].")


def test_a_field_that_is_missing(http: httpx.Client) -> None:
    for path, body in ((POST, {}), ("/api/chat", {"model": "nano"})):
        assert refused(http.post(path, json=body)) == (400, "messages: is missing. Send it.")


def test_routes_and_methods_that_there_are_not(http: httpx.Client) -> None:
    for path in ("/chat/completions", "/models", "/v1", "/v2/chat/completions", "/x"):
        status, message = refused(http.post(path, json={}))
        assert (status, message.split(". ")[0]) == (404, f"there is no route {path}")
        assert message.endswith("let the client's base URL end in /v1.")
    for path in ("/v1/audio/speech", "/v1/v1/models", "/api/x"):
        answer = refused(http.post(path, json={}))
        assert answer == (404, f"there is no route {path}. GET /openapi.json lists those there are.")
    for path in ("/docs", "/v1/models/../../etc/passwd", "/v1/models/gpt-4"):
        assert http.get(path).status_code == 404
    assert refused(http.post("/")) == (405, "POST is no method of /. Use GET or HEAD.")  # the live page
    response = http.get(POST)
    assert refused(response) == (405, f"GET is no method of {POST}. Use POST.")
    assert response.headers["allow"] == "POST"
    assert error_of(response)["code"] == "method_not_allowed"


def test_ollamas_names_of_fields(http: httpx.Client) -> None:
    for role, name in (("tool", "tool_name"), ("user", "name")):
        messages = [*HELLO, {"role": role, name: 3, "content": "x"}]
        answer = refused(http.post("/api/chat", json={"model": "nano", "messages": messages}))
        assert answer == (400, f"messages[1].{name}: must be text, not int. Give a string.")


def test_where_a_client_takes_its_token(start: Start) -> None:
    server = start(tokens=Tokens([("mine", "t" * 20)]))
    for path, where in {POST: "api_key in OpenAI's clients", "/api/chat": "OLLAMA_API_KEY"}.items():
        status, message = refused(httpx.post(server.url_of(path), json={}))
        assert (status, where in message) == (401, True)
