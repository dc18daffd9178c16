"""Hosts, origins, tokens and sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from agentrt.runtime.http.identity import Tokens
from tests.runtime.http.serving import Running


def error_of(response: httpx.Response) -> dict[str, Any]:
    error: dict[str, Any] = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    return error


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:99", "[::1]:8000", "LOCALHOST"])
def test_names_of_this_machine(http: httpx.Client, host: str) -> None:
    assert http.get("/health", headers={"host": host}).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil", "", "[bad"])
def test_a_foreign_name_that_resolves_to_this_machine(http: httpx.Client, host: str) -> None:
    response = http.get("/app", headers={"host": host})
    assert (response.status_code, error_of(response)["code"]) == (421, "invalid_host")


def test_pages_of_other_sites(http: httpx.Client, server: Running) -> None:
    for origin in ("https://evil.example", "null", "http://127.0.0.1:1", "http://["):
        response = http.post("/body", content=b"x", headers={"origin": origin})
        assert (response.status_code, error_of(response)["code"]) == (403, "invalid_origin")
    response = http.post("/body", content=b"x", headers={"origin": server.url})
    assert response.status_code == 200
    assert "access-control-allow-origin" not in response.headers


def test_tokens(start: Callable[..., Running]) -> None:
    server = start(tokens=Tokens([("notes", "t" * 20), ("mail", "u" * 20)]))
    with httpx.Client(base_url=server.url) as http:
        for header in ({}, {"authorization": "Bearer " + "x" * 20}, {"authorization": "Basic " + "t" * 20}):
            response = http.get("/app", headers=header)
            assert (response.status_code, error_of(response)["code"]) == (401, "invalid_api_key")
            assert response.headers["www-authenticate"] == "Bearer"
        for app, token in (("notes", "t" * 20), ("mail", "u" * 20)):
            assert http.get("/app", headers={"authorization": f"Bearer {token}"}).json() == app
        assert http.get("/app").status_code == 401
        assert http.get("/health").json() == "local"


def test_bodies_that_are_too_large(start: Callable[..., Running]) -> None:
    server = start(max_body_bytes=1000)
    large = b"x" * 1001
    with httpx.Client(base_url=server.url) as http:
        for content in (large, iter([large[:600], large[600:]])):  # with and without a stated length
            response = http.post("/body", content=content)
            assert (response.status_code, error_of(response)["code"]) == (413, "request_too_large")
        assert http.post("/body", content=large[:1000]).json() == 1000
