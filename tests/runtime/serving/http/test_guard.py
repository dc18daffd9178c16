"""Hosts, origins, tokens and sizes."""

from __future__ import annotations

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
