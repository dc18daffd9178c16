"""``X-AgentRT-Priority``: taken, checked and returned by the server, and passed on by the gateway."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest

from agentrt import Priority
from agentrt.runtime.request.request import Request
from tests.runtime.serving.server.conftest import HELLO

CHAT: dict[str, Any] = {"model": "nano", "messages": HELLO, "max_tokens": 4}
RESPONSES: dict[str, Any] = {"model": "nano", "input": "Hello!", "max_output_tokens": 4}
NAME = "X-AgentRT-Priority"
BODIES = [("/v1/chat/completions", CHAT), ("/v1/responses", RESPONSES)]


@pytest.mark.parametrize(("path", "body"), BODIES)
@pytest.mark.parametrize(
    ("header", "fields", "expected", "tier"),
    [
        ("proactive", {}, Priority.PROACTIVE, "flex"),
        ("Reactive", {}, Priority.REACTIVE, "priority"),
        ("proactive", {"priority": 1}, Priority.PROACTIVE, "flex"),
        ("proactive", {"service_tier": "auto"}, Priority.PROACTIVE, "flex"),
        ("reactive", {"priority": 0, "service_tier": "flex"}, Priority.REACTIVE, "priority"),
        (None, {"priority": 10, "service_tier": "priority"}, Priority.PROACTIVE, "flex"),
        (None, {"priority": -1}, Priority.REACTIVE, "priority"),
        (None, {"service_tier": "flex"}, Priority.PROACTIVE, "flex"),
        (None, {"service_tier": "auto"}, Priority.REACTIVE, "default"),
        (None, {}, Priority.REACTIVE, "default"),
    ],
)
def test_the_header_or_a_field_is_a_priority(
    http: httpx.Client,
    processed: list[Request],
    header: str | None,
    fields: dict[str, Any],
    expected: Priority,
    tier: str,
    path: str,
    body: dict[str, Any],
) -> None:
    headers = {} if header is None else {NAME: header}
    for stream in (False, True):
        answer = http.post(path, json={**body, **fields, "stream": stream}, headers=headers)
        assert answer.status_code == 200
        assert answer.headers[NAME] == expected.name.lower()
        assert re.search(r'"service_tier": ?"(.*?)"', answer.text)[1] == tier
    assert [request.priority for request in processed] == [expected] * 2


@pytest.mark.parametrize(("path", "body"), BODIES)
@pytest.mark.parametrize(
    ("headers", "fields"),
    [
        ([(NAME, "urgent")], {}),
        ([(NAME, "10")], {}),
        ([(NAME, "")], {}),
        ([(NAME, "reactive"), (NAME, "proactive")], {}),
        ([(NAME, "reactive")], {"priority": 10}),
        ([(NAME, "proactive")], {"priority": 0}),
        ([(NAME, "reactive")], {"service_tier": "flex"}),
        ([(NAME, "proactive")], {"service_tier": "priority"}),
    ],
)
def test_nonsense_and_contradictions_are_refused(
    http: httpx.Client,
    processed: list[Request],
    headers: list[tuple[str, str]],
    fields: dict[str, Any],
    path: str,
    body: dict[str, Any],
) -> None:
    answer = http.post(path, json={**body, **fields}, headers=headers)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == NAME.lower()
    assert processed == []


BODY = {"model": "nano", "messages": HELLO, "max_tokens": 2}


@pytest.mark.parametrize("name", ["Grüße 7", "会話", "🦓", "x" * 256, "é" * 256])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses"])
def test_the_name_of_a_session_is_utf_8(http: httpx.Client, path: str, name: str) -> None:
    body = BODY | {"input": "Hello!", "store": False, "max_output_tokens": 2}
    response = http.post(path, json=body, headers={b"X-Session-ID": name.encode()})
    assert response.status_code == 200, response.text
    (listed,) = http.get("/v1/contexts").json()["data"]
    assert listed["session"] == name


@pytest.mark.parametrize(
    "headers",
    [[b""], [b"x" * 257], [b"a", b"b"], [b"a\tb"], ["é".encode("latin-1")], [b"\xf0\x9f\xa6"]],
    ids=["empty", "long", "twice", "control", "Latin-1", "cut"],
)
def test_a_wrong_header_is_refused(http: httpx.Client, headers: list[bytes]) -> None:
    response = http.post("/v1/chat/completions", json=BODY, headers=[(b"X-Session-ID", h) for h in headers])
    error = response.json()["error"]
    assert (response.status_code, error["param"], error["code"]) == (400, "x-session-id", "invalid_value")
    assert http.get("/v1/contexts").json()["data"] == []


@pytest.mark.parametrize(
    ("path", "body", "kind"),
    [
        ("/v1/chat/completions", BODY, "session"),
        ("/v1/completions", {"prompt": ["Hi", [5, 6]], "n": 2, "max_tokens": 2}, "session"),
        ("/v1/responses", {"input": "Hello!", "max_output_tokens": 2}, "responses"),
        ("/v1/responses", {"input": "Hello!", "max_output_tokens": 2, "store": False}, "session"),
        ("/api/chat", BODY, "session"),
        ("/api/generate", {"model": "nano", "prompt": "Hello!", "options": {"num_predict": 2}}, "session"),
    ],
)
@pytest.mark.parametrize("streamed", [False, True])
def test_every_route_that_answers_takes_the_name(
    http: httpx.Client, path: str, body: dict[str, Any], kind: str, streamed: bool
) -> None:
    headers = {"x-session-id": "thread 7"}
    for _ in range(2):
        assert http.post(path, json=body | {"stream": streamed}, headers=headers).status_code == 200
    listed = http.get("/v1/contexts").json()["data"]
    assert {(context["kind"], context["session"]) for context in listed} == {(kind, "thread 7")}
    assert len(listed) == (2 if kind == "responses" else 1)  # each chain is a context of its own
    assert http.post(path, json=body, headers={"x-session-id": ""}).status_code == 400
