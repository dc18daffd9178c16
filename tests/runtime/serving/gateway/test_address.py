"""Addresses of engines: what ``--upstream`` takes, and that every request stays below it."""

from __future__ import annotations

import httpx
import pytest

from agentrt.errors import ConfigurationError
from agentrt.runtime.serving.gateway import GatewayConfig
from tests.runtime.serving.gateway.scripted import STREAMED, Scripted
from tests.runtime.serving.http.serving import Start


def refusal_of(upstream: str) -> str:
    messages = []
    for refuse in (GatewayConfig(upstream=upstream).check, GatewayConfig(upstream=upstream).root):
        with pytest.raises(ConfigurationError) as caught:
            refuse()
        messages.append(str(caught.value))
    assert messages[0] == messages[1]
    return messages[0]


@pytest.mark.parametrize(
    "upstream",
    [
        "", "localhost:8000", "ftp://x", "http://", "http:/x", "http:x", "//x/v1", "x/v1", "https:///v1",
        "http://u:p@x", "http://@x", "http://x?y", "http://x?", "http://x/v1?", "http://x/v1#", "http://x#y",
        "http://x:99999", "http://x:0", "http://x:y", "http://x:", "http://x:/v1", "http://x:-1", "http://x:+80",
        "http://x:\uff18\uff10", "http://[::1", "http://[::1]x", "http://[x]", "http://::1",
        "http://x.", "http://x./v1", "http://.x", "http://x..y", "http://..", "http://" + "x" * 64, "http://%31",
        "http://" + "x." * 127 + "x",
        " http://x", "http://x ", "http://x /v1", "http://x/v 1", "http://x:80 ", "http://x\n", "http://x/\t",
        "http://x/v1\\", "http:\\\\x", "http://x/\u200bv1",
        "http://x//v1", "http://x/a//v1", "http://x/v1//", "http://x/v1.", "http://x/v1/.", "http://x/v1/..",
        "http://x/a/../v1", "http://x/%2e%2e/v1", "http://x/a%2f..%2fb/v1", "http://x/a%5cb", "http://x/%252e",
        "http://x/%zz/v1", "http://x/%", "http://x/a;b/v1", "http://x/%00",
    ],
)  # fmt: skip
def test_other_addresses_are_refused(upstream: str) -> None:
    message = refusal_of(upstream)
    assert message.startswith("--upstream: ")
    assert "is not the address of an engine" in message
    assert message.endswith("such as http://127.0.0.1:8000/v1.")


@pytest.mark.parametrize(
    ("upstream", "meant"),
    [
        ("localhost:8000", "http://localhost:8000"),
        ("127.0.0.1:8000/v1", "http://127.0.0.1:8000/v1"),
        ("[::1]:8000", "http://[::1]:8000"),
        *((upstream, None) for upstream in ("me:secret@x", "localhost:99999", "ftp://x")),
        *((f"http://{rest}", None) for rest in ("me:secret@x/v1", "x/v1?key=secret", "x/#secret")),
        ("me:secret@http://x", None),
    ],
)
def test_a_forgotten_scheme_is_named_and_no_secret_is_shown(upstream: str, meant: str | None) -> None:
    message = refusal_of(upstream)
    assert (f"Did you mean {meant}?" in message) if meant else ("Did you mean" not in message)
    assert "secret" not in message


@pytest.mark.parametrize(
    ("upstream", "root"),
    [
        ("http://x:1", "http://x:1/"),
        ("http://x/", "http://x/"),
        ("http://x/v1", "http://x/"),
        ("https://x/api/v1/", "https://x/api"),
        ("HTTP://X/a.b/v1", "http://x/a.b"),
        ("http://[::1]:8000/v1", "http://[::1]:8000/"),
        ("http://llm_engine-1/tenant/v1", "http://llm_engine-1/tenant"),
        ("http://bücher.example/ü/v1", "http://xn--bcher-kva.example/%C3%BC"),
        ("http://x/a%20b/v1", "http://x/a%20b"),
    ],
)
def test_the_root_of_an_engine(upstream: str, root: str) -> None:
    GatewayConfig(upstream=upstream).check()
    assert str(GatewayConfig(upstream=upstream).root()) == root


def test_an_address_that_others_can_reach_needs_a_token() -> None:
    with pytest.raises(ConfigurationError, match="reachable from other machines"):
        GatewayConfig(upstream="http://x", host="0.0.0.0").check()


@pytest.mark.parametrize("given", ["/tenant-a", "/tenant-a/", "/tenant-a/v1", "/tenant-a/v1/"])
def test_every_request_has_the_prefix_of_the_address(start: Start, fake_engine: Scripted, given: str) -> None:
    fake_engine.play(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
    gateway = start(fake_engine.url + given)
    for method, path in (
        *(("GET", path) for path in ("/health", "/metrics", "/v1/models", "/v1/models/a%2Fb")),
        *(("POST", path) for path in ("/v1/chat/completions", "/v1//x", "//tenant-b/v1/x", "/x\\tenant-b")),
        ("POST", "/%2ftenant-b/%2e/x?../../tenant-b"),
    ):
        url = httpx.URL(gateway.url).copy_with(raw_path=path.encode())
        assert httpx.request(method, url, json=STREAMED).status_code == 200
        assert fake_engine.heads[-1].splitlines()[0] == f"{method} /tenant-a{path} HTTP/1.1".encode()
