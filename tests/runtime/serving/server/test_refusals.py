"""Requests that are refused: by the guard, by the limit, and for their bodies."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from agentrt.runtime import LocalRuntime
from agentrt.runtime.serving.http.identity import Tokens
from tests.runtime.serving.http.serving import Running, until
from tests.runtime.serving.server.conftest import HELLO

REQUEST: dict[str, Any] = {"model": "nano", "messages": HELLO, "max_tokens": 2}
POST = "/v1/chat/completions"


def error_of(response: httpx.Response) -> dict[str, Any]:
    error: dict[str, Any] = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    return error


def test_the_guard_stands_before_the_runtime(start: Callable[..., Running]) -> None:
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


def test_more_requests_than_the_limit(start: Callable[..., Running], gate: Any) -> None:
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


def test_background_requests_refuse_no_reactive_one(start: Callable[..., Running], gate: Any) -> None:
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
