"""``agentrt serve`` as a process: sockets, tokens, signals."""

from __future__ import annotations

import json
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from agentrt.errors import ConfigurationError
from agentrt.runtime.serving.server import ServerConfig, bind
from tests.patience import until
from tests.runtime.serving.server.conftest import HELLO

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


@pytest.mark.check
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


@pytest.mark.check
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_directly_after_the_address_stops_it(
    serve: Callable[..., Service], number: signal.Signals
) -> None:
    service = serve("--port", "0", "--no-auth")
    service.wait_for("serving nano at")
    service.process.send_signal(number)
    assert service.process.wait(60) == 0
    service.end()
    assert service.lines[-1] == "stopped"


class TwoRequests:
    """A streamed request that has begun, and one that is not streamed, to a server."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._body = LONG | {"max_tokens": 3000}
        self.begun = threading.Event()

    def streamed(self) -> list[str]:
        with httpx.stream("POST", f"{self._url}/chat/completions", json=self._body, timeout=60) as response:
            lines = response.iter_lines()
            first = next(lines)
            self.begun.set()
            return [first, *lines]

    def whole(self) -> httpx.Response:
        return httpx.post(f"{self._url}/chat/completions", json=self._body | {"stream": False}, timeout=60)

    def wait_for_both(self) -> None:
        assert self.begun.wait(60)
        health = self._url.removesuffix("/v1") + "/health"
        until(lambda: httpx.get(health).json()["running"] == 2)


@pytest.mark.check
@pytest.mark.parametrize("drain", ["0", "1", "600"])
def test_requests_that_are_not_awaited_get_an_error(serve: Callable[..., Service], drain: str) -> None:
    service = serve("--port", "0", "--no-auth", "--drain", drain)
    requests = TwoRequests(service.wait_for("serving nano at").rsplit(" ", 1)[1])
    with ThreadPoolExecutor() as threads:
        streamed, whole = threads.submit(requests.streamed), threads.submit(requests.whole)
        requests.wait_for_both()
        service.process.send_signal(signal.SIGINT)
        if drain != "0":
            service.wait_for("waiting for 2 requests; Ctrl-C again to stop now")
        if drain == "600":
            service.process.send_signal(signal.SIGINT)
        last = [line for line in streamed.result() if line][-1]
        error = json.loads(last.removeprefix("data: "))["error"]
        assert (error["type"], error["code"]) == ("server_error", "server_stopping")
        assert whole.result().status_code == 503
        assert whole.result().json()["error"] == error
    assert service.end() == 0, service.lines
    assert service.lines[-1] == "stopped"
    assert not any("Traceback" in line or "ASGI" in line for line in service.lines), service.lines


@pytest.mark.check
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


@pytest.mark.check
@pytest.mark.parametrize("address", ["socket", "port"])
def test_of_servers_that_start_together_on_one_address_one_serves(
    serve: Callable[..., Service], tmp_path: Path, address: str
) -> None:
    path = tmp_path / "agentrt.sock"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    options = ("--uds", str(path)) if address == "socket" else ("--port", port, "--no-auth")
    started = [serve(*options) for _ in range(3)]
    with ThreadPoolExecutor() as threads:
        serving = [threads.submit(service.wait_for, "serving nano") for service in started]
        failures = [each.exception(120) for each in serving]
    assert failures.count(None) == 1
    winner = started.pop(failures.index(None))
    for service in started:
        assert service.end() == 2
        assert "another server" in service.lines[-1] or "another --port" in service.lines[-1]
    if address == "socket":
        assert path.is_socket(), "those that ended left the one that serves its socket"
    winner.process.send_signal(signal.SIGTERM)
    assert winner.end() == 0, winner.lines
    assert not path.exists()


@pytest.mark.check
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
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere" / "tokens")
    (tmp_path / "file").chmod(0o600)
    (tmp_path / "file").write_bytes(b"\xff\xfe")
    for name in ("dangling", "file", "nowhere/tokens"):
        assert "the token file" in refused("--port", "0", "--token-file", str(tmp_path / name))
    assert "--served-model-name NAME=MODEL" in refused("--model", "nano", "--model", "nano")
    assert "Give --memory-budget-mib 4" in refused("--memory-budget-mib", "100", "--memory-mib", "200")
    assert "there is no model 'nan'" in refused("--model", "nano", "--model", "nan")
