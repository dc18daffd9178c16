"""Web pages of origins that the owner allows, and of all others."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from agentrt.errors import ConfigurationError
from agentrt.runtime.serving.http.config import ListenConfig
from tests.runtime.serving.http.serving import MAIL, TOKENS, Running, Start
from tests.runtime.serving.http.test_guard import error_of

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
