"""What ``agentrt top`` says of servers that it cannot watch, and of tokens that they refuse."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from agentrt.errors import ConfigurationError
from agentrt.runtime import LocalRuntime
from agentrt.runtime.serving.http.identity import METRICS_READER, Tokens
from tests.agentrt.cli.top.conftest import token_file, top
from tests.agentrt.cli.top.frames import STREAM
from tests.runtime.serving.gateway.scripted import Scripted
from tests.runtime.serving.http.serving import Running
from tests.runtime.serving.server.conftest import running


def problem(*options: object) -> str:
    with pytest.raises(ConfigurationError) as caught:
        top(*options)
    said = str(caught.value)
    assert said.endswith(".")
    assert ".." not in said
    assert ").)" not in said
    return said


def test_three_kinds_of_tokens_are_told_apart(server: Running, tmp_path: Path) -> None:
    none = problem("--url", server.url)
    unknown = problem("--url", server.url, "--token-file", token_file(tmp_path / "unknown", mine="x"))
    others = problem("--url", server.url, "--token-file", token_file(tmp_path / "others", notes="n"))
    assert none.startswith(f"{server.url} needs the token of its owner, and none was sent.")
    assert unknown.startswith(f"{server.url} does not know the token of {tmp_path / 'unknown'}:")
    assert others.startswith(f"the token of {tmp_path / 'others'} is that of an app, and {server.url} shows")
    assert "--token-file" in none
    assert "--token-file" in unknown
    assert "the first app's in the server's token file" in others


def test_the_servers_own_reason_is_passed_on(scripted: Callable[..., Scripted], tokens: Path) -> None:
    body = b'{"error": {"message": "not on\\u001b[2J Mondays.", "code": "mondays"}}'
    head = b"HTTP/1.1 403 Forbidden\r\ncontent-length: %d\r\n\r\n" % len(body)
    said = problem("--url", scripted(head + body).url, "--token-file", tokens)
    assert "refuses the token" in said
    assert "not on\u241b[2J Mondays" in said
    body = b'{"error": {"message": "too many of them.", "code": "rate_limit_exceeded"}}'
    head = b"HTTP/1.1 429 Too Many Requests\r\ncontent-length: %d\r\n\r\n" % len(body)
    assert "status 429 (too many of them)." in problem("--url", scripted(head + body).url)


def test_the_token_of_this_user_is_for_servers_on_this_machine(
    nano: LocalRuntime, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.mkdir(parents=True)
    tokens = Tokens.read(folder / "tokens")
    assert METRICS_READER in tokens.apps
    with running(nano, tokens=tokens, host="0.0.0.0") as server:
        assert "nano" in top("--url", server.url)
        monkeypatch.setattr(
            "agentrt.runtime.serving.http.config.ListenConfig.loopback", False
        )  # another machine's
        assert "none was sent" in problem("--url", server.url)


def test_nothing_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    for url in (f"http://127.0.0.1:{port}", f"http://localhost:{port}/v1"):
        said = problem("--url", url)
        assert said.startswith(f"{url.removesuffix('/v1')} cannot be watched: nothing listens there.")
        assert "Start agentrt serve there" in said


def test_addresses_that_are_none() -> None:
    assert "Did you mean http://127.0.0.1:8931?" in problem("--url", "127.0.0.1:8931")
    for url in (
        "http://",
        "http://x:99999",
        "ftp://x",
        "http://u:secret@x",
        "http://x?token=secret",
        "http://a b",
    ):
        said = problem("--url", url)
        assert said.startswith("--url: ")
        assert "is not the address of a server" in said
        assert "secret" not in said


def test_the_other_protocol(server: Running, scripted: Callable[..., Scripted]) -> None:
    said = problem("--url", server.url.replace("http://", "https://"))
    assert "it does not speak TLS, so that its address begins with http://" in said
    assert "Start agentrt serve" not in said, "it runs"
    alert = b"\x15\x03\x03\x00\x02\x02\x46"  # how OpenSSL answers plain HTTP
    assert "an address with TLS begins with https://" in problem("--url", scripted(alert).url)


def test_servers_that_are_not_agentrts(
    server: Running, scripted: Callable[..., Scripted], tokens: Path
) -> None:
    page = b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 2\r\n\r\nhi"
    assert "has no live page (status 200)" in problem("--url", scripted(page).url)
    assert "has no live page (status 404)" in problem("--url", f"{server.url}/other", "--token-file", tokens)
    moved = b"HTTP/1.1 301 Moved\r\nlocation: https://x/live\x1b/events\r\ncontent-length: 0\r\n\r\n"
    assert "sends to https://x/live" in problem("--url", scripted(moved.replace(b"\x1b", b"")).url)
    for event in (b'data: {"n":1}\n\n', b'data: {"n"\n\n', b'data: {"n":1,"t":0,"models":[1]}\n\n'):
        said = problem("--url", scripted(STREAM + event, stays=True).url)
        assert "sends events that this version of agentrt does not know" in said
    assert "has ended" in problem("--url", scripted(STREAM).url)


def test_the_base_url_of_clients_is_an_address(server: Running, tokens: Path) -> None:
    assert "nano" in top("--url", f"{server.url}/v1", "--token-file", tokens)


def test_sockets_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(tmp_path / "left"))
    for name, reason in {
        "none": "there is no such socket",
        "file": "it is no socket",
        ".": "it is no socket",
        "left": "nothing listens there",
        "x" * 120: "there is no such socket",
    }.items():
        said = problem("--uds", tmp_path / name)
        assert said.startswith(f"{tmp_path / name} cannot be watched: {reason}.")
        assert "--uds" in said


def test_an_address_and_a_socket() -> None:
    with pytest.raises(SystemExit):
        top("--url", "http://x", "--uds", "/x")


def test_token_files_that_cannot_be_used(server: Running, tmp_path: Path) -> None:
    said = problem("--url", server.url, "--token-file", tmp_path / "none")
    assert "cannot be used: there is no such file" in said
    path = token_file(tmp_path / "empty")
    assert "holds no token of an app" in problem("--url", server.url, "--token-file", path)
