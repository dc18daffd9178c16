"""Hosts, origins, tokens and sizes."""

from __future__ import annotations

from http.client import HTTPConnection
from typing import Any

import httpx
import pytest

from agentrt.errors import ConfigurationError
from agentrt.runtime.serving.http.config import ListenConfig
from agentrt.runtime.serving.http.identity import Tokens
from tests.runtime.serving.http.serving import Running, Start


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


def test_tokens(start: Start) -> None:
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


def test_the_app_of_the_first_token_is_the_owner(start: Start) -> None:
    assert httpx.get(f"{start().url}/owner").json() is True, "without tokens there is one user"
    server = start(tokens=Tokens([("mine", "t" * 20), ("notes", "u" * 20), ("mine", "v" * 20)]))
    for token, is_owner in (("t", True), ("u", False), ("v", True)):
        headers = {"authorization": f"Bearer {token * 20}"}
        assert httpx.get(f"{server.url}/owner", headers=headers).json() is is_owner
        assert httpx.get(f"{server.url}/metrics", headers=headers).status_code == (200 if is_owner else 403)


@pytest.mark.parametrize(
    "path", ["/metrics", "/metrics/", "//metrics", "/./metrics", "/app/../metrics", "/%6detrics"]
)
def test_no_spelling_of_the_path_shows_metrics_to_others(start: Start, path: str) -> None:
    server = start(tokens=Tokens([("mine", "t" * 20), ("notes", "u" * 20)]))
    connection = HTTPConnection("127.0.0.1", server.port)
    connection.request("GET", path, headers={"authorization": "Bearer " + "u" * 20})
    assert connection.getresponse().status == 403
    connection.close()


def test_a_token_of_metrics_reads_them_and_nothing_else(start: Start) -> None:
    server = start(tokens=Tokens([("@metrics", "r" * 20), ("mine", "t" * 20), ("notes", "u" * 20)]))
    reader = {"authorization": "Bearer " + "r" * 20}
    owner = {"authorization": "Bearer " + "t" * 20}
    with httpx.Client(base_url=server.url) as http:
        assert http.get("/owner", headers=owner).json() is True, "the first app, not the first line"
        assert http.get("/metrics", headers=reader).status_code == 200
        assert http.get("/health", headers=reader).json() == "local", "as without a token"
        for method, path in (("GET", "/app"), ("GET", "/owner"), ("POST", "/metrics"), ("POST", "/health")):
            refused = http.request(method, path, headers=reader)
            assert (refused.status_code, error_of(refused)["code"]) == (403, "metrics_only")


@pytest.mark.parametrize("path", ["/metrics/", "//metrics", "/app/../metrics", "/metrics/../app"])
def test_a_token_of_metrics_reads_them_at_their_own_path(start: Start, path: str) -> None:
    """What an engine behind a gateway makes of another spelling is not known here."""
    server = start(tokens=Tokens([("mine", "t" * 20), ("@metrics", "r" * 20)]))
    connection = HTTPConnection("127.0.0.1", server.port)
    connection.request("GET", path, headers={"authorization": "Bearer " + "r" * 20})
    assert connection.getresponse().status == 403
    connection.close()


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_only_reading_health_needs_no_token(start: Start, method: str) -> None:
    server = start(tokens=Tokens([("mine", "t" * 20)]))
    assert httpx.request(method, f"{server.url}/health").status_code == 401


def test_bodies_that_are_too_large(start: Start) -> None:
    server = start(max_body_bytes=1000)
    large = b"x" * 1001
    with httpx.Client(base_url=server.url) as http:
        for content in (large, iter([large[:600], large[600:]])):  # with and without a stated length
            response = http.post("/body", content=content)
            assert (response.status_code, error_of(response)["code"]) == (413, "request_too_large")
        assert http.post("/body", content=large[:1000]).json() == 1000


@pytest.mark.parametrize(
    ("settings", "allowed"),
    [
        ({}, True),
        ({"host": "localhost"}, True),
        ({"host": "::1"}, True),
        ({"host": "0.0.0.0"}, False),
        ({"host": "example.org"}, False),
        ({"host": "0.0.0.0", "tokens": Tokens([("a", "b")])}, True),
    ],
)
def test_only_this_machine_needs_no_token(settings: dict[str, Any], allowed: bool) -> None:
    config = ListenConfig(**settings)
    if allowed:
        config.check()
    else:
        with pytest.raises(ConfigurationError, match="token"):
            config.check()
