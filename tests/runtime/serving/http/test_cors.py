"""Web pages of origins that the owner allows, and of all others."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from agentrt.errors import ConfigurationError
from agentrt.runtime.serving.http.config import ListenConfig
from agentrt.runtime.serving.http.identity import Tokens
from tests.runtime.serving.http.serving import Running, Start

ALLOWED = "https://chat.example"
TOKEN = {"authorization": "Bearer " + "t" * 20}
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
    server = start(tokens=Tokens([("mine", "t" * 20)]), cors_origins=frozenset([ALLOWED]))
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


def test_a_page_can_send_requests_and_read_answers_and_refusals(allowing: httpx.Client) -> None:
    for headers, status in ((TOKEN, 200), ({}, 401), (TOKEN | {"host": "evil.example"}, 421)):
        response = allowing.post("/body", content=b"x", headers={"origin": ALLOWED, **headers})
        assert response.status_code == status
        assert cors_headers(response)["access-control-allow-origin"] == ALLOWED
        assert "access-control-allow-credentials" not in response.headers
        assert "Origin" in response.headers["vary"]


@pytest.mark.parametrize("origin", OTHERS)
def test_any_other_origin_is_refused(allowing: httpx.Client, origin: str) -> None:
    response = allowing.post("/body", content=b"x", headers={"origin": origin, **TOKEN})
    assert (response.status_code, response.json()["error"]["code"]) == (403, "invalid_origin")
    assert cors_headers(response) == {}
    preflight = allowing.options("/body", headers={"origin": origin, **PREFLIGHT})
    assert (preflight.status_code, preflight.json()["error"]["code"]) == (403, "invalid_origin")
    assert cors_headers(preflight) == {}


@pytest.mark.parametrize("origin", [ALLOWED, "https://evil.example"])
def test_a_preflight_under_a_name_that_resolves_to_this_machine(allowing: httpx.Client, origin: str) -> None:
    preflight = allowing.options("/body", headers={"host": "evil.example", "origin": origin, **PREFLIGHT})
    assert (preflight.status_code, preflight.json()["error"]["code"]) == (421, "invalid_host")
    assert cors_headers(preflight) == {}


def test_a_preflight_for_a_method_that_no_route_has(allowing: httpx.Client) -> None:
    asked = PREFLIGHT | {"access-control-request-method": "PATCH"}
    preflight = allowing.options("/body", headers={"origin": ALLOWED, **asked})
    assert (preflight.status_code, preflight.json()["error"]["code"]) == (400, "invalid_method")
    assert cors_headers(preflight) == {}


def test_a_preflight_ends_its_connection_as_all_requests_without_a_token(allowing: httpx.Client) -> None:
    for method in ("POST", "PATCH"):
        asked = PREFLIGHT | {"access-control-request-method": method}
        response = allowing.options("/body", headers={"origin": ALLOWED, **asked})
        assert response.headers["connection"] == "close"


def test_by_default_no_page_of_another_site_is_answered(server: Running) -> None:
    with httpx.Client(base_url=server.url) as http:
        for method in ("POST", "OPTIONS"):
            response = http.request(method, "/body", headers={"origin": ALLOWED, **PREFLIGHT})
            assert response.status_code == 403
            assert cors_headers(response) == {}


def test_programs_notice_nothing(allowing: httpx.Client) -> None:
    response = allowing.post("/body", content=b"x", headers=TOKEN)
    assert response.json() == 1
    assert cors_headers(response) == {}


@pytest.mark.parametrize(
    "origin",
    ["*", "null", "", "chat.example", "https://*.example", "https://chat.example/", "https://a.example/x",
     "https://Chat.example", "https://chat.example:443", "http://chat.example:80", "ftp://chat.example",
     "https://me@chat.example", "https://chat.example:x", "https://[", "file://"],
)  # fmt: skip
def test_what_no_browser_sends_is_no_origin(origin: str) -> None:
    with pytest.raises(ConfigurationError, match="no origin"):
        ListenConfig(cors_origins=frozenset([origin])).check()


@pytest.mark.parametrize(
    "origin", ["https://chat.example", "http://localhost:3000", "http://127.0.0.1:8080", "http://[::1]:5173"]
)
def test_what_browsers_send(origin: str) -> None:
    ListenConfig(cors_origins=frozenset([origin])).check()
