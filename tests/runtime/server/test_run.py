"""``agentrt serve`` as a process: sockets, tokens, signals."""

from __future__ import annotations

import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from agentrt.errors import ConfigurationError
from agentrt.runtime.server import ServerConfig, bind
from tests.runtime.server.conftest import HELLO

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="signals and Unix sockets"),
]

LONG = {"model": "nano", "messages": HELLO, "max_tokens": 400, "ignore_eos": True, "stream": True}


class Service:
    """A server process and the lines it has printed."""

    def __init__(self, *arguments: str, command: str = "serve") -> None:
        self.process = subprocess.Popen(
            # Should it crash, the stacks of its threads are among its lines.
            [sys.executable, "-X", "faulthandler", "-m", "agentrt", command, *arguments],
            stderr=subprocess.PIPE,
            text=True,
        )
        self.lines: list[str] = []

    def wait_for(self, words: str) -> str:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line.strip())
            if words in line:
                return line.strip()
        raise AssertionError(self.lines)

    def end(self) -> int:
        assert self.process.stderr is not None
        if not self.process.stderr.closed:
            self.lines += self.process.stderr.read().splitlines()
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
            rest = list(lines)  # requests in progress are completed
        assert "data: [DONE]" in rest
        with pytest.raises(httpx.TransportError):
            http.get("/models")
    assert service.end() == 0, service.lines
    assert service.lines[-1] == "stopped"


def test_several_models_with_names_of_their_own(serve: Callable[..., Service]) -> None:
    models = ["--model", "nano", "--model", "nano-draft"]
    names = ["--served-model-name", "small=nano-draft", "--served-model-name", "draft=nano-draft"]
    service = serve("--port", "0", "--no-auth", *models, *names, "--memory-mib", "8", "--idle-unload", "600")
    url = service.wait_for("serving nano, small, draft at").rsplit(" ", 1)[1]
    with httpx.Client(base_url=url, timeout=60) as http:
        listed = http.get("/models").json()["data"]
        assert [(model["id"], model["status"]) for model in listed] == [
            ("nano", "loaded"),
            ("small", "unloaded"),
            ("draft", "unloaded"),
        ]
        body = LONG | {"model": "draft", "max_tokens": 40}
        with http.stream("POST", "/chat/completions", json=body) as response:
            lines = response.iter_lines()
            assert '"model":"small"' in next(lines)
            service.process.send_signal(signal.SIGTERM)
            assert "data: [DONE]" in list(lines)  # requests of every model are completed
    assert service.end() == 0, service.lines


def test_draining_has_a_time_limit(serve: Callable[..., Service]) -> None:
    service = serve("--port", "0", "--no-auth", "--drain", "0")
    url = service.wait_for("serving nano at").rsplit(" ", 1)[1]
    body = LONG | {"max_tokens": 3000}
    with httpx.stream("POST", f"{url}/chat/completions", json=body, timeout=60) as response:
        lines = response.iter_lines()
        next(lines)
        service.process.send_signal(signal.SIGINT)
        with pytest.raises(httpx.TransportError):
            list(lines)
    assert service.end() == 0, service.lines


def test_a_unix_socket_identifies_its_peer(serve: Callable[..., Service], tmp_path: Path) -> None:
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
    assert service.end() == 0, service.lines
    assert not path.exists()


def test_settings_that_cannot_work(tmp_path: Path) -> None:
    def refused(*arguments: str) -> str:
        service = Service(*arguments)
        assert service.end() == 2, service.lines
        (line,) = service.lines
        return line

    assert "reachable from other machines" in refused("--host", "0.0.0.0", "--no-auth")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert "choose another --port" in refused("--port", str(taken.getsockname()[1]))
    (tmp_path / "file").write_text("x")
    assert "is not a socket" in refused("--uds", str(tmp_path / "file"))
    assert "two models are named 'nano'" in refused("--model", "nano", "--model", "nano")
    assert "Give --memory-budget-mib 2" in refused("--memory-budget-mib", "100", "--memory-mib", "200")
    assert "there is no model 'nan'" in refused("--model", "nano", "--model", "nan")
