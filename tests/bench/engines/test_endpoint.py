"""Servers over HTTP: one of the same words on a real socket, its priorities and its faults."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse

from agentrt.bench.engines import endpoint
from agentrt.bench.engines.endpoint import open_vllm
from agentrt.bench.engines.side import Request as Asked
from agentrt.bench.scheduler import main as scheduler
from agentrt.errors import BenchPeerError, ConfigurationError
from agentrt.runtime.serving.server import ServerConfig
from tests.patience import PATIENCE_S, until
from tests.runtime.serving.http.serving import listening

pytestmark = pytest.mark.bench


class Shaped:
    """Answers as vLLM does, and keeps what it was asked."""

    def __init__(self, *, priorities: bool = True, short_by: int = 0) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.priorities = priorities
        self.short_by = short_by
        self.opened = lambda: None
        """Called between an answer's opening and its first token."""
        self.app = FastAPI()

        @self.app.get("/v1/models")
        def models() -> dict[str, Any]:
            return {"data": [{"id": "random"}]}

        @self.app.post("/v1/chat/completions")
        async def complete(request: Request) -> Response:
            body = await request.json()
            self.bodies.append(body)
            if body.get("priority") and not self.priorities:
                return JSONResponse({"error": "Priority scheduling is not enabled."}, 400)
            return StreamingResponse(self._stream(body), media_type="text/event-stream")

    async def _stream(self, body: dict[str, Any]) -> AsyncIterator[str]:
        tokens = body["max_tokens"] - self.short_by
        opening = {"index": 0, "delta": {"role": "assistant", "content": ""}}
        yield f"data: {json.dumps({'choices': [opening]})}\n\n"
        self.opened()
        for _ in range(tokens):
            choice = {"index": 0, "delta": {"content": "a"}}
            yield f"data: {json.dumps({'choices': [choice], 'usage': None})}\n\n"
        usage = {"completion_tokens": tokens, "prompt_tokens": len(body["messages"][0]["content"])}
        yield f"data: {json.dumps({'choices': [], 'usage': usage})}\n\n"
        yield "data: [DONE]\n\n"


Start = Callable[[Shaped], str]


@pytest.fixture
def address() -> Iterator[Start]:
    """Starts a server and says where it is."""
    with ExitStack() as stack:
        yield lambda server: stack.enter_context(listening(server.app, ServerConfig(port=0))).url + "/v1/"


class Clock:
    """The client's clock, which leaps over what it waits for and what a server is to take."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._leapt_s = 0.0
        monkeypatch.setattr(endpoint, "time", SimpleNamespace(perf_counter=self.now))

    def now(self) -> float:
        return time.perf_counter() + self._leapt_s

    def leap(self, seconds: float) -> None:
        self._leapt_s += seconds

    def sleep_until(self, true: Callable[[], bool], monkeypatch: pytest.MonkeyPatch) -> None:
        """Let the client sleep until something is true, and then for no longer."""

        async def sleep(seconds: float) -> None:
            if seconds > 0:
                await asyncio.to_thread(until, true)
                self.leap(seconds)

        names = {"run": asyncio.run, "gather": asyncio.gather, "sleep": sleep}
        monkeypatch.setattr(endpoint, "asyncio", SimpleNamespace(**names))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_a_peer_serves_a_schedule(address: Start, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    server = Shaped()
    peer = open_vllm(address(server))
    server.bodies.clear()
    clock.sleep_until(lambda: bool(server.bodies), monkeypatch)
    requests = [Asked("x" * 30, 3, at_s=3600.0, reactive=False), Asked("x" * 20, 2)]
    run = peer.stream(requests)
    assert [one.request for one in run.answers] == requests
    assert [one.prompt_tokens for one in run.answers] == [30, 20]
    for one in run.answers:
        assert 0 < one.first_s <= one.total_s <= run.elapsed_s
    assert run.elapsed_s > 3600, "the second came when it was meant to"
    first, second = server.bodies
    assert (first["messages"][0]["role"], first["priority"]) == ("user", 0), "the user's goes first"
    assert second["priority"] == 1
    assert all(body["ignore_eos"] and body["model"] == "random" for body in server.bodies)


def test_the_opening_of_a_chat_is_no_token(address: Start, clock: Clock) -> None:
    server = Shaped()
    peer = open_vllm(address(server))
    server.opened = lambda: clock.leap(3600)
    answer = peer.generate(Asked("Hello!", 3))
    assert 3600 <= answer.first_s <= answer.total_s


def test_all_that_has_arrived_is_sent_however_long_others_take(address: Start) -> None:
    class Gathering(Shaped):
        """Answers none of them before all are here."""

        gathering = False

        async def _stream(self, body: dict[str, Any]) -> AsyncIterator[str]:
            if len(self.bodies) == 110:
                all_here.set()
            if self.gathering:
                await asyncio.wait_for(all_here.wait(), PATIENCE_S)
            async for event in super()._stream(body):
                yield event

    all_here = asyncio.Event()
    server = Gathering()
    peer = open_vllm(address(server))
    server.bodies.clear()
    server.gathering = True
    assert len(peer.stream([Asked("Hello!", 1)] * 110).answers) == 110


@pytest.mark.parametrize(
    ("server", "problem"),
    [
        (Shaped(priorities=False), "refused a request with 400.*Priority scheduling is not enabled"),
        (Shaped(short_by=1), "answered 1 of 2 tokens"),
        (Shaped(short_by=2), "answered 0 of 2 tokens"),
    ],
)
def test_a_peer_that_does_not_do_the_work_is_refused(address: Start, server: Shaped, problem: str) -> None:
    with pytest.raises(BenchPeerError, match=problem):
        open_vllm(address(server))


def test_a_server_of_another_kind_or_none_is_refused(address: Start) -> None:
    server = Shaped()
    server.app.router.routes[:] = [
        route for route in server.app.router.routes if getattr(route, "path", "") != "/v1/models"
    ]
    problem = r"answers /v1/models with 404\. Start it as docs/scheduling-figures\.md"
    with pytest.raises(BenchPeerError, match=problem):
        open_vllm(address(server))
    down = "http://127.0.0.1:9"
    with pytest.raises(BenchPeerError, match=f"vllm at {down} cannot be reached: nothing listens there"):
        open_vllm(down)
    with pytest.raises(ConfigurationError, match="--model FILE"):
        scheduler.run(quick=True, workloads=None, progress=lambda line: None, peers=[down])


@pytest.mark.parametrize("url", ["h:1", "http://", "http://127.0.0.1:port", "http://h:99999", "http://h?x"])
def test_an_impossible_url_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"--peer: .* is not the address of a server") as raised:
        open_vllm(url)
    assert ("Did you mean http://h:1?" in str(raised.value)) is (url == "h:1")
