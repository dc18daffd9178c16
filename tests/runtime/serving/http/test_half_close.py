"""Clients that end their sending and still read, as ``nc -N`` does, and clients that are gone."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncGenerator, Iterator
from concurrent.futures import Future
from contextlib import closing
from http.client import HTTPResponse

import pytest
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response

from agentrt.runtime.serving.http.config import ListenConfig
from agentrt.runtime.serving.http.errors import install_error_handlers
from agentrt.runtime.serving.http.streaming import ClosingStreamingResponse, cancel_on_disconnect
from tests.runtime.serving.http.serving import listening, read_all, until

pytestmark = pytest.mark.socket

WHOLE = b"GET /whole HTTP/1.1\r\nhost: localhost\r\n\r\n"
STREAM = b"GET /stream HTTP/1.1\r\nhost: localhost\r\n\r\n"


class Work:
    """What the application's requests wait for, and what became of them."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.cancelled = 0
        self.go_on: Future[None] = Future()

    async def done(self) -> str:
        self.begun.release()
        try:
            await asyncio.shield(asyncio.wrap_future(self.go_on))
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return "answer"

    def app(self) -> FastAPI:
        app = FastAPI()
        install_error_handlers(app)

        @app.get("/whole")
        async def whole(request: Request) -> str:
            return await cancel_on_disconnect(request, self.done())

        @app.get("/stream")
        async def stream() -> Response:
            async def body() -> AsyncGenerator[str, None]:
                yield "the "
                yield await self.done()

            return ClosingStreamingResponse(body())

        @app.api_route("/body", methods=["POST", "HEAD"])
        async def body_size(request: Request) -> JSONResponse:
            return JSONResponse(len(await request.body()))

        return app


@pytest.fixture
def work() -> Work:
    return Work()


@pytest.fixture
def client(work: Work) -> Iterator[socket.socket]:
    config = ListenConfig(port=0, drain_s=600)
    with listening(work.app(), config) as server, server.connect() as connection:
        yield connection


def ask(client: socket.socket, request: bytes) -> None:
    client.sendall(request)
    client.shutdown(socket.SHUT_WR)


def read_until(client: socket.socket, end: bytes) -> bytes:
    received = b""
    while not received.endswith(end):
        piece = client.recv(1)
        assert piece, received
        received += piece
    return received


def answer(received: bytes) -> bytes:
    """The body of a response, as a client's parser sees it."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(received)
        theirs.shutdown(socket.SHUT_WR)
        with closing(HTTPResponse(ours)) as response:
            response.begin()
            assert response.status == 200
            return response.read()


@pytest.mark.parametrize(
    ("request_bytes", "early", "said"),
    [
        (WHOLE, b"HTT", b'"answer"'),
        (WHOLE.replace(b"1.1", b"1.0"), b"HTT", b'"answer"'),
        (STREAM, b"the \r\n00", b"the answer"),
    ],
    ids=["1.1", "1.0", "stream"],
)
def test_an_answer_that_takes_long(
    client: socket.socket, work: Work, request_bytes: bytes, early: bytes, said: bytes
) -> None:
    """Its beginning comes early, while the rest is computed."""
    ask(client, request_bytes)
    received = read_until(client, early)
    work.go_on.set_result(None)
    received += read_all(client)
    assert answer(received) == said
    assert work.cancelled == 0


def test_a_stream_in_http_1_0_has_nothing_early(client: socket.socket, work: Work) -> None:
    ask(client, STREAM.replace(b"1.1", b"1.0"))
    assert work.begun.acquire(timeout=30)
    work.go_on.set_result(None)
    assert answer(read_all(client)) == b"the answer"


@pytest.mark.matrix
@pytest.mark.parametrize("half_closed", [False, True])
@pytest.mark.parametrize("request_bytes", [WHOLE, STREAM], ids=["whole", "stream"])
def test_a_client_that_is_gone_cancels_its_request(
    client: socket.socket, work: Work, request_bytes: bytes, half_closed: bool
) -> None:
    client.sendall(request_bytes)
    assert work.begun.acquire(timeout=30)
    if request_bytes == STREAM:
        read_until(client, b"the \r\n")  # with nothing unread, its system resets no connection
    if half_closed:
        client.shutdown(socket.SHUT_WR)
        assert client.recv(1)
    client.close()
    until(lambda: work.cancelled == 1)


def test_pipelined_requests(client: socket.socket, work: Work) -> None:
    work.go_on.set_result(None)
    ask(client, WHOLE + STREAM + WHOLE)
    received = read_all(client)
    answers = [answer(b"HTTP/1.1 " + each) for each in received.split(b"HTTP/1.1 ")[1:]]
    assert answers == [b'"answer"', b"the answer", b'"answer"']


def test_a_body(client: socket.socket) -> None:
    head = (
        b"POST /body HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000000\r\nexpect: 100-continue\r\n\r\n"
    )
    ask(client, head + bytes(1_000_000))
    received = read_all(client)
    assert answer(received[received.rindex(b"HTTP/1.1 ") :]) == b"1000000"


def test_the_head_of_an_answer(client: socket.socket) -> None:
    ask(client, b"HEAD /body HTTP/1.1\r\nhost: localhost\r\n\r\n")
    received = read_all(client)
    assert received.startswith(b"HTTP/1.1 200")
    assert received.endswith(b"\r\n\r\n")


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /whole HTTP/1.1\r\nhost: loc",
        b"POST /body HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\n\r\nfour",
        b"POST /body HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n",
    ],
    ids=["head", "body", "chunks"],
)
def test_a_request_without_its_end(client: socket.socket, sent: bytes) -> None:
    ask(client, sent)
    received = read_all(client)
    assert received.startswith(b"HTTP/1.1 400")
    assert b"within the request" in received


def test_a_second_request_without_its_end(client: socket.socket, work: Work) -> None:
    work.go_on.set_result(None)
    ask(client, WHOLE + b"GET /wh")
    received = read_all(client)
    assert received.startswith(b"HTTP/1.1 200")
    assert received.count(b"HTTP/1.1 400") == 1


def test_nothing_at_all(client: socket.socket) -> None:
    ask(client, b"")
    assert read_all(client) == b""
