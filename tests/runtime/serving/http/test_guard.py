"""Hosts, tokens, sizes, and web pages of origins that the owner allows or does not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from typing import Any

import httpx
import pytest

from agentrt.errors import ConfigurationError
from agentrt.runtime.serving.http.config import ListenConfig
from agentrt.runtime.serving.http.identity import Tokens
from tests.runtime.serving.http.serving import MAIL, NOTES, TOKENS, Running, Start

READER = {"authorization": "Bearer " + "r" * 20}
WITH_READER = Tokens([("@metrics", "r" * 20), ("mail", "m" * 20), ("notes", "n" * 20)])


def error_of(response: httpx.Response) -> tuple[int, str]:
    error: dict[str, Any] = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    return response.status_code, error["code"]


@pytest.mark.parametrize(
    ("host", "known"),
    [
        *((host, True) for host in ("localhost", "127.0.0.1:99", "[::1]:8000", "LOCALHOST")),
        *((host, False) for host in ("evil.example", "127.0.0.1.evil.example", "localhost.evil", "", "[bad")),
    ],
)
def test_only_names_of_this_machine(http: httpx.Client, host: str, known: bool) -> None:
    response = http.get("/app", headers={"host": host})
    assert (response.status_code == 200) if known else (error_of(response) == (421, "invalid_host"))


def test_pages_of_other_sites(http: httpx.Client, server: Running) -> None:
    for origin in ("https://evil.example", "null", "http://127.0.0.1:1", "http://["):
        response = http.post("/body", content=b"x", headers={"origin": origin})
        assert error_of(response) == (403, "invalid_origin")
    response = http.post("/body", content=b"x", headers={"origin": server.url})
    assert response.status_code == 200
    assert "access-control-allow-origin" not in response.headers


def test_tokens(start: Start) -> None:
    assert httpx.get(f"{start().url}/owner").json() is True, "without tokens there is one user"
    tokens = Tokens([("mail", "m" * 20), ("notes", "n" * 20), ("mail", "l" * 20)])
    with httpx.Client(base_url=start(tokens=tokens).url) as http:
        for header in ({}, {"authorization": "Bearer " + "x" * 20}, {"authorization": "Basic " + "m" * 20}):
            response = http.get("/app", headers=header)
            assert error_of(response) == (401, "invalid_api_key")
            assert response.headers["www-authenticate"] == "Bearer"
        for letter, app in (("m", "mail"), ("n", "notes"), ("l", "mail")):
            headers = {"authorization": f"Bearer {letter * 20}"}
            assert http.get("/app", headers=headers).json() == app
            assert http.get("/owner", headers=headers).json() is (app == "mail"), "that of the first token"
            assert http.get("/metrics", headers=headers).status_code == (200 if app == "mail" else 403)
        assert http.get("/health").json() == "local"
        for method in ("POST", "PUT", "DELETE", "OPTIONS"):
            assert http.request(method, "/health").status_code == 401, "only reading it needs no token"


def status_at(server: Running, path: str, headers: dict[str, str]) -> int:
    """The status of the answer at a path that no client normalises."""
    with closing(HTTPConnection("127.0.0.1", server.port)) as connection:
        connection.request("GET", path, headers=headers)
        return connection.getresponse().status


def test_no_spelling_of_the_path_shows_metrics_to_others(start: Start) -> None:
    """What an engine behind a gateway makes of another spelling is not known here."""
    server = start(tokens=WITH_READER)
    spellings = ("/metrics/", "//metrics", "/./metrics", "/app/../metrics")
    for path in ("/metrics", "/%6detrics", *spellings):
        assert status_at(server, path, NOTES) == 403
    for path in ("/metrics/../app", *spellings):
        assert status_at(server, path, READER) == 403


def test_a_token_of_metrics_reads_them_and_nothing_else(start: Start) -> None:
    with httpx.Client(base_url=start(tokens=WITH_READER).url) as http:
        assert http.get("/owner", headers=MAIL).json() is True, "the first app, not the first line"
        assert http.get("/metrics", headers=READER).status_code == 200
        assert http.get("/health", headers=READER).json() == "local", "as without a token"
        for method, path in (("GET", "/app"), ("GET", "/owner"), ("POST", "/metrics"), ("POST", "/health")):
            assert error_of(http.request(method, path, headers=READER)) == (403, "metrics_only")


def test_bodies_that_are_too_large(start: Start) -> None:
    large = b"x" * 1001
    with httpx.Client(base_url=start(max_body_bytes=1000).url) as http:
        for content in (large, iter([large[:600], large[600:]])):  # with and without a stated length
            assert error_of(http.post("/body", content=content)) == (413, "request_too_large")
        assert http.post("/body", content=large[:1000]).json() == 1000


@pytest.mark.parametrize(
    ("settings", "allowed"),
    [
        *(({}, True), ({"host": "localhost"}, True), ({"host": "::1"}, True)),
        *(({"host": "0.0.0.0"}, False), ({"host": "example.org"}, False)),
        ({"host": "0.0.0.0", "tokens": TOKENS}, True),
    ],
)
def test_only_this_machine_needs_no_token(settings: dict[str, Any], allowed: bool) -> None:
    config = ListenConfig(**settings)
    if allowed:
        config.check()
    else:
        with pytest.raises(ConfigurationError, match="token"):
            config.check()


ALLOWED = "https://chat.example"
PREFLIGHT = {
    "access-control-request-method": "POST",
    "access-control-request-headers": "authorization,content-type,x-stainless-lang",
}
OTHERS = [
    "https://chat.example.evil.example", "http://chat.example", "https://chat.example:8443", "null",
    "https://evil.example", "https://sub.chat.example", "HTTPS://CHAT.EXAMPLE", "*",
]  # fmt: skip


@pytest.fixture
def allowing(start: Start) -> Iterator[httpx.Client]:
    server = start(tokens=TOKENS, cors_origins=frozenset([ALLOWED]))
    with httpx.Client(base_url=server.url, timeout=60) as client:
        yield client


def cors_headers(response: httpx.Response) -> dict[str, str]:
    prefix = "access-control-"
    return {name: value for name, value in response.headers.items() if name.startswith(prefix)}


def test_a_preflight_needs_no_token_and_names_the_one_origin(allowing: httpx.Client) -> None:
    response = allowing.options("/body", headers={"origin": ALLOWED, **PREFLIGHT})
    headers = cors_headers(response)
    assert response.status_code == 200
    assert headers["access-control-allow-origin"] == ALLOWED
    assert headers["access-control-allow-headers"] == PREFLIGHT["access-control-request-headers"]
    assert "POST" in headers["access-control-allow-methods"]
    assert "access-control-allow-credentials" not in headers
    assert "Origin" in response.headers["vary"]
    assert response.headers["connection"] == "close", "as after all requests without a token"
    asked = PREFLIGHT | {"access-control-request-method": "PATCH"}
    response = allowing.options("/body", headers={"origin": ALLOWED, **asked})
    assert (response.status_code, response.headers["connection"]) == (400, "close")


def test_a_page_can_send_requests_and_read_answers_and_refusals(allowing: httpx.Client) -> None:
    for headers, status in ((MAIL, 200), ({}, 401), (MAIL | {"host": "evil.example"}, 421)):
        response = allowing.post("/body", content=b"x", headers={"origin": ALLOWED, **headers})
        assert response.status_code == status
        assert cors_headers(response)["access-control-allow-origin"] == ALLOWED
        assert "access-control-allow-credentials" not in response.headers
        assert "Origin" in response.headers["vary"]
    response = allowing.post("/body", content=b"x", headers=MAIL)
    assert (response.json(), cors_headers(response)) == (1, {}), "programs notice nothing"


def test_any_other_origin_is_refused(allowing: httpx.Client, server: Running) -> None:
    for origin in OTHERS:
        for method in ("POST", "OPTIONS"):
            response = allowing.request(method, "/body", headers={"origin": origin, **MAIL, **PREFLIGHT})
            assert error_of(response) == (403, "invalid_origin")
            assert cors_headers(response) == {}
    for method in ("POST", "OPTIONS"):  # by default all are
        response = httpx.request(method, f"{server.url}/body", headers={"origin": ALLOWED, **PREFLIGHT})
        assert response.status_code == 403
        assert cors_headers(response) == {}


@pytest.mark.parametrize("origin", [ALLOWED, "https://evil.example"])
def test_a_preflight_under_a_name_that_resolves_to_this_machine(allowing: httpx.Client, origin: str) -> None:
    preflight = allowing.options("/body", headers={"host": "evil.example", "origin": origin, **PREFLIGHT})
    assert error_of(preflight) == (421, "invalid_host")
    assert cors_headers(preflight) == {}


@pytest.mark.parametrize(
    "origin",
    ["*", "null", "", "chat.example", "https://*.example", "https://chat.example/", "https://a.example/x",
     "https://Chat.example", "https://chat.example:443", "http://chat.example:80", "ftp://chat.example",
     "https://me@chat.example", "https://chat.example:x", "https://[", "file://"],
)  # fmt: skip
def test_what_no_browser_sends_is_no_origin(origin: str) -> None:
    with pytest.raises(ConfigurationError, match="no origin"):
        ListenConfig(cors_origins=frozenset([origin])).check()


def test_what_browsers_send() -> None:
    local = ("http://localhost:3000", "http://127.0.0.1:8080", "http://[::1]:5173")
    ListenConfig(cors_origins=frozenset([ALLOWED, *local])).check()
