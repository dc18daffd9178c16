"""``agentrt serve`` as a process: sockets, tokens, signals."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from agentrt.errors import ConfigurationError
from agentrt.runtime.http.identity import Tokens
from agentrt.runtime.server import ServerConfig, bind
from tests.runtime.server.conftest import HELLO

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals and Unix sockets")

LONG = {"model": "nano", "messages": HELLO, "max_tokens": 400, "ignore_eos": True, "stream": True}


class Service:
    """A server process and the lines it has said."""

    def __init__(self, *arguments: str, command: str = "serve") -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "agentrt", command, *arguments], stderr=subprocess.PIPE, text=True
        )
        self.said: list[str] = []

    def wait_for(self, words: str) -> str:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said.append(line.strip())
            if words in line:
                return line.strip()
        raise AssertionError(self.said)

    def end(self) -> int:
        assert self.process.stderr is not None
        if not self.process.stderr.closed:
            self.said += self.process.stderr.read().splitlines()
            self.process.stderr.close()
        return self.process.wait(60)


@pytest.fixture
def serve() -> Iterator[Callable[..., Service]]:
    started: list[Service] = []

    def one(*arguments: str) -> Service:
        started.append(Service(*arguments))
        return started[-1]

    yield one
    for service in started:
        service.process.kill()
        service.end()


def test_it_prints_a_token_and_drains_on_sigterm(serve: Callable[..., Service]) -> None:
    service = serve("--port", "0")
    url = service.wait_for("serving nano at").rsplit(" ", 1)[1]
    token = service.wait_for("token").rsplit(" ", 1)[1]
    with httpx.Client(base_url=url, timeout=60) as http:
        assert http.get("/models").status_code == 401
        http.headers["authorization"] = f"Bearer {token}"
        with http.stream("POST", "/chat/completions", json=LONG) as response:
            lines = response.iter_lines()
            next(lines)
            service.process.send_signal(signal.SIGTERM)
            rest = list(lines)  # what is under way comes to its end
        assert "data: [DONE]" in rest
        with pytest.raises(httpx.TransportError):
            http.get("/models")
    assert service.end() == 0
    assert service.said[-1] == "stopped"


def test_draining_has_a_bound(serve: Callable[..., Service]) -> None:
    service = serve("--port", "0", "--no-auth", "--drain", "0")
    url = service.wait_for("serving nano at").rsplit(" ", 1)[1]
    body = LONG | {"max_tokens": 3000}
    with httpx.stream("POST", f"{url}/chat/completions", json=body, timeout=60) as response:
        lines = response.iter_lines()
        next(lines)
        service.process.send_signal(signal.SIGINT)
        with pytest.raises(httpx.TransportError):
            list(lines)
    assert service.end() == 0


def test_a_unix_socket_knows_its_peer(serve: Callable[..., Service], tmp_path: Path) -> None:
    path = tmp_path / "agentrt.sock"
    service = serve("--uds", str(path))
    service.wait_for("serving nano on the socket")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with httpx.Client(transport=httpx.HTTPTransport(uds=str(path)), base_url="http://agentrt") as http:
        answer = http.post("/v1/chat/completions", json=LONG | {"stream": False, "max_tokens": 3}, timeout=60)
        assert answer.status_code == 200
    with pytest.raises(ConfigurationError, match="another server listens"), bind(ServerConfig(uds=path)):
        pass
    service.process.send_signal(signal.SIGTERM)
    assert service.end() == 0
    assert not path.exists()


def test_what_cannot_be_served(tmp_path: Path) -> None:
    def refused(*arguments: str) -> str:
        service = Service(*arguments)
        assert service.end() == 2
        (line,) = service.said
        return line

    assert "reachable from other machines" in refused("--host", "0.0.0.0", "--no-auth")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert "choose another --port" in refused("--port", str(taken.getsockname()[1]))
    (tmp_path / "file").write_text("x")
    assert "is no socket" in refused("--uds", str(tmp_path / "file"))


def test_a_socket_that_was_left_behind_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "agentrt.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    with bind(ServerConfig(uds=path)):
        assert path.is_socket()
    assert not path.exists()


def test_a_path_that_is_too_long_for_a_socket(tmp_path: Path) -> None:
    with (
        pytest.raises(ConfigurationError, match="shorter path"),
        bind(ServerConfig(uds=tmp_path / ("x" * 200))),
    ):
        pass


def test_a_token_file_is_written_once(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    Tokens.read(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    token = path.read_text().split()[-1]
    assert Tokens.read(path).app_of(f"Bearer {token}") == "default"
    path.write_text(f"# two apps\n\nnotes {'a' * 16}\nmail {'b' * 16}\n")
    tokens = Tokens.read(path)
    assert tokens.app_of(f"bearer {'b' * 16}") == "mail"
    assert tokens.app_of("Bearer " + "c" * 16) is None
    assert tokens.app_of("") is None


@pytest.mark.parametrize("content", ["", "# nothing\n", "token\n", "app short\n", f"app {'a' * 16} more\n"])
def test_a_token_file_that_is_none(tmp_path: Path, content: str) -> None:
    path = tmp_path / "tokens"
    path.touch(0o600)
    path.write_text(content)
    with pytest.raises(ConfigurationError):
        Tokens.read(path)


def test_a_token_file_that_others_may_read(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.touch()
    os.chmod(path, 0o644)
    with pytest.raises(ConfigurationError, match="chmod 600"):
        Tokens.read(path)


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
def test_only_this_machine_may_ask_without_a_token(settings: dict[str, Any], allowed: bool) -> None:
    config = ServerConfig(**settings)
    if allowed:
        config.check()
    else:
        with pytest.raises(ConfigurationError, match="token"):
            config.check()


def test_the_lines_said_are_no_secrets(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    tokens = Tokens.read(path)
    assert path.read_text().split()[-1] not in json.dumps(repr(ServerConfig(tokens=tokens)))
