"""The connections of a gateway to its engine."""

from __future__ import annotations

import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from agentrt.runtime.serving.gateway import sse, upstream
from tests.runtime.serving.gateway.scripted import (
    CHAT,
    DONE,
    FINISHED,
    FIRST,
    STREAM,
    STREAMED,
    Play,
    Scripted,
)
from tests.runtime.serving.http.serving import Start, until

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


class Keeping(BaseHTTPRequestHandler):
    """Keeps its connections, as engines do."""

    protocol_version = "HTTP/1.1"
    server: Engine

    def log_message(self, *_: Any) -> None:
        """Log nothing."""

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        if self.path != CHAT:
            answer = OK.replace(b"ok", b"") if self.command == "HEAD" else OK
            self.wfile.write(b"HTTP/1.1 204 X\r\n\r\n" if self.path == "/nothing" else answer)
            return
        self.wfile.write(STREAM.replace(b"\r\n\r\n", b"\r\ntransfer-encoding: chunked\r\n\r\n"))
        for event in (FIRST, FINISHED, DONE):
            self.wfile.write(b"%x\r\n%b\r\n" % (len(event), event))
        self.server.go_on.wait(60)
        self.wfile.write(b"0\r\n\r\n")

    do_POST = do_HEAD = do_GET


class Engine(ThreadingHTTPServer):
    """An engine that keeps connections."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Keeping)
        self.go_on = threading.Event()
        """Whether streams end after their last event."""
        self.go_on.set()
        self.open: list[socket.socket] = []

    def get_request(self) -> Any:
        connection, address = super().get_request()
        self.open.append(connection)
        return connection, address

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    @contextmanager
    def serving(self) -> Iterator[None]:
        thread = threading.Thread(target=self.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield
        finally:
            self.go_on.set()
            self.shutdown()
            thread.join()


@pytest.fixture
def keeping() -> Iterator[Engine]:
    with Engine() as engine, engine.serving():
        yield engine


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What follows at once counts as such however busy the machine is, and nothing expires."""
    monkeypatch.setattr(sse, "_REST_S", 60.0)
    monkeypatch.setattr(upstream, "_KEEP_ALIVE_S", 600.0)


def test_requests_one_after_another_share_a_connection(start: Start, keeping: Engine) -> None:
    gateway = start(keeping.url)
    for fields in ({}, {"tools": None}, {"stream": False}) * 2:
        answer = httpx.post(gateway.url + CHAT, json=STREAMED | fields)
        assert (answer.status_code, answer.content[-len(DONE) :]) == (200, DONE)
    for method, path in (("HEAD", "/x"), ("GET", "/nothing"), ("GET", "/x")) * 2:
        assert httpx.request(method, gateway.url + path).is_success
    assert len(keeping.open) == 1


def test_a_stream_that_does_not_end_takes_its_connection_with_it(
    start: Start, keeping: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sse, "_REST_S", 0.0)
    gateway = start(keeping.url)
    keeping.go_on.clear()
    for _ in range(2):
        assert httpx.post(gateway.url + CHAT, json=STREAMED).content.endswith(DONE)
    assert len(keeping.open) == 2


def test_a_connection_that_the_engine_has_closed_is_not_used_again(start: Start, keeping: Engine) -> None:
    gateway = start(keeping.url)
    assert httpx.get(f"{gateway.url}/x").text == "ok"
    (connection,) = keeping.open
    connection.shutdown(socket.SHUT_RDWR)
    until(lambda: httpx.get(f"{gateway.url}/x").status_code == 200)
    assert len(keeping.open) == 2


def test_an_idle_connection_is_closed_in_time(
    start: Start, keeping: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upstream, "_KEEP_ALIVE_S", 0.0)
    gateway = start(keeping.url)
    for _ in range(2):
        assert httpx.get(f"{gateway.url}/x").text == "ok"
    assert len(keeping.open) == 2


def test_heads_before_the_answer_are_passed_over(play: Play) -> None:
    early = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n"
    assert httpx.get(play(early + OK).url + "/x").text == "ok"


def test_large_bodies_pass_in_both_directions(play: Play, fake_engine: Scripted) -> None:
    body = bytes(range(256)) * 40_000
    gateway = play(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
    assert httpx.post(f"{gateway.url}/x", content=body[:8_000_000]).content == body
    assert fake_engine.bodies == [body[:8_000_000]]


@pytest.mark.needs("openssl")
def test_a_certificate_is_checked(start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key, certificate = tmp_path / "key", tmp_path / "certificate"
    make = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    make += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", str(key)]
    subprocess.run([*make, "-out", str(certificate)], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with Engine() as engine:
        engine.socket = context.wrap_socket(engine.socket, server_side=True)
        with engine.serving():
            url = f"https://localhost:{engine.server_port}"
            assert httpx.get(f"{start(url).url}/x").status_code == 502
            trusting = ssl.create_default_context(cafile=str(certificate))
            monkeypatch.setattr(httpx, "create_ssl_context", lambda **_: trusting)
            gateway, before = start(url), len(engine.open)
            assert [httpx.get(f"{gateway.url}/x").text for _ in range(2)] == ["ok", "ok"]
            assert len(engine.open) == before + 1
            assert httpx.get(f"{start(url.replace('localhost', '127.0.0.1')).url}/x").status_code == 502
