"""Who may ask, from where, and how much."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from agentrt.runtime import LocalRuntime
from agentrt.runtime.http.identity import Tokens
from tests.runtime.server.conftest import HELLO, Running

ASKED: dict[str, Any] = {"model": "nano", "messages": HELLO, "max_tokens": 2}
POST = "/v1/chat/completions"


def error_of(response: httpx.Response) -> dict[str, Any]:
    error: dict[str, Any] = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    return error


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:99", "[::1]:8000", "LOCALHOST"])
def test_names_of_this_machine(http: httpx.Client, host: str) -> None:
    assert http.get("/health", headers={"host": host}).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil", "", "[bad"])
def test_a_name_that_was_pointed_here(http: httpx.Client, host: str) -> None:
    response = http.get("/v1/models", headers={"host": host})
    assert (response.status_code, error_of(response)["code"]) == (421, "invalid_host")


def test_pages_of_other_sites(http: httpx.Client, server: Running) -> None:
    for origin in ("https://evil.example", "null", "http://127.0.0.1:1", "http://["):
        response = http.post(POST, json=ASKED, headers={"origin": origin})
        assert (response.status_code, error_of(response)["code"]) == (403, "invalid_origin")
    response = http.post(POST, json=ASKED, headers={"origin": server.url})
    assert response.status_code == 200
    assert "access-control-allow-origin" not in response.headers


def test_tokens(start: Callable[..., Running]) -> None:
    server = start(tokens=Tokens([("notes", "t" * 20), ("mail", "u" * 20)]))
    with httpx.Client(base_url=server.url) as http:
        for header in ({}, {"authorization": "Bearer " + "x" * 20}, {"authorization": "Basic " + "t" * 20}):
            response = http.get("/v1/models", headers=header)
            assert (response.status_code, error_of(response)["code"]) == (401, "invalid_api_key")
            assert response.headers["www-authenticate"] == "Bearer"
        for token in ("t" * 20, "u" * 20):
            assert http.get("/v1/models", headers={"authorization": f"Bearer {token}"}).status_code == 200
        assert http.get("/metrics").status_code == 401
        assert http.get("/health").status_code == 200


def test_bodies_that_are_too_large(start: Callable[..., Running]) -> None:
    server = start(max_body_bytes=1000)
    large = json.dumps(ASKED | {"user": "x" * 1000}).encode()
    with httpx.Client(base_url=server.url) as http:
        for content in (large, iter([large[:600], large[600:]])):  # with and without a stated length
            response = http.post(POST, content=content, headers={"content-type": "application/json"})
            assert (response.status_code, error_of(response)["code"]) == (413, "request_too_large")
        assert http.post(POST, json=ASKED).status_code == 200


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
        json.dumps(ASKED | {"temperature": math.nan}).encode(),
        json.dumps(ASKED | {"temperature": math.inf}).encode(),
        json.dumps(ASKED).replace("2}", "2e999}").encode(),
        json.dumps(ASKED).replace("2}", "9" * 5000 + "}").encode(),
        json.dumps(ASKED).replace("Hello!", "\\ud800").encode(),
        json.dumps(ASKED | {"messages": [{"role": "user", "content": "x\x00y"}] * 2000}).encode(),
    ],
)
def test_bodies_that_are_none(http: httpx.Client, content: bytes) -> None:
    response = http.post(POST, content=content, headers={"content-type": "application/json"})
    assert response.status_code == 400
    assert error_of(response)["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", None]
)
def test_bodies_of_another_kind(http: httpx.Client, kind: str | None) -> None:
    headers = {} if kind is None else {"content-type": kind}
    response = http.post(POST, content=json.dumps(ASKED), headers=headers)
    assert response.status_code == 400
    error_of(response)


def test_routes_that_are_none(http: httpx.Client) -> None:
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


def test_more_than_may_be_under_way(start: Callable[..., Running], gate: Any) -> None:
    server = start(max_requests=2)
    statuses: list[int] = []

    def ask() -> None:
        statuses.append(httpx.post(f"{server.url}{POST}", json=ASKED, timeout=60).status_code)

    threads = [threading.Thread(target=ask) for _ in range(2)]
    threads[0].start()
    gate.arrived()  # the first one is in the engine, which stands still
    threads[1].start()
    while server.admission.active < 2:
        threads[1].join(0.01)
    response = httpx.post(f"{server.url}{POST}", json=ASKED)
    assert (response.status_code, error_of(response)["code"]) == (429, "rate_limit_exceeded")
    assert response.headers["retry-after"] == "1"
    gate.open()
    for thread in threads:
        thread.join()
    assert statuses == [200, 200]
    assert server.admission.active == 0
    assert httpx.post(f"{server.url}{POST}", json=ASKED).status_code == 200


def test_a_fault_tells_nothing_of_the_inside(
    http: httpx.Client, runtime: LocalRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise RuntimeError("secret detail")

    monkeypatch.setattr(runtime._input_processor, "prepare", fail)
    response = http.post(POST, json=ASKED)
    assert (response.status_code, error_of(response)["type"]) == (500, "server_error")
    assert "secret" not in response.text
