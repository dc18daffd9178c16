"""Requests that the gateway repeats, and those that it must not."""

from __future__ import annotations

import json
import re
import socket
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from agentrt.runtime.serving.gateway import upstream
from tests.runtime.serving.gateway.scripted import STREAMED, Script, Scripted
from tests.runtime.serving.gateway.test_faulty_engines import CALL, FINISHED, FIRST, HEAD, STREAM, events_of
from tests.runtime.serving.http.serving import Start

CHAT = "/v1/chat/completions"
STOP = FINISHED.replace(b"tool_calls", b"stop")
PLAIN: Any = {"model": "m", "messages": []}


def refusal(status: int, more: bytes = b"") -> bytes:
    return b"HTTP/1.1 %d Refused\r\n%bcontent-length: 2\r\n\r\nno" % (status, more)


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upstream, "_PAUSES_S", (0.0, 0.0))


@pytest.mark.parametrize("status", [502, 503])
@pytest.mark.parametrize("body", [STREAMED, PLAIN])
def test_a_refused_request_is_sent_again(start: Start, scripted: Script, status: int, body: Any) -> None:
    engine = scripted(refusal(status), next_answer=STREAM + FIRST + STOP)
    answer = httpx.post(start(engine.url).url + CHAT, json=body)
    assert answer.status_code == 200
    assert b"hi" in answer.content
    assert len(engine.heads) == 2


def test_the_last_refusal_is_the_clients(start: Start, scripted: Script) -> None:
    engine = scripted(refusal(503))
    answer = httpx.post(start(engine.url).url + CHAT, json=STREAMED)
    assert (answer.status_code, answer.text) == (503, "no")
    assert len(engine.heads) == 3


@pytest.mark.parametrize(
    ("method", "path", "answer"),
    [
        ("POST", CHAT, refusal(503, b"retry-after: 7\r\n")),
        ("POST", CHAT, refusal(500)),
        ("POST", CHAT, refusal(429)),
        ("POST", CHAT, b""),
        ("POST", "/v1/responses", refusal(503)),
        ("POST", "/v1/files?to=/chat/completions", refusal(502)),
        ("DELETE", "/v1/files/7", refusal(503)),
    ],
)
def test_what_is_not_repeated(start: Start, scripted: Script, method: str, path: str, answer: bytes) -> None:
    engine = scripted(answer, next_answer=STREAM + FIRST + STOP)
    assert httpx.request(method, start(engine.url).url + path, json=STREAMED).status_code >= 429
    assert len(engine.heads) == 1


@pytest.mark.parametrize("body", [STREAMED, PLAIN])
@pytest.mark.parametrize("begun", [HEAD, HEAD + FIRST])
def test_no_answer_that_has_begun_is_repeated(
    start: Start, scripted: Script, body: Any, begun: bytes
) -> None:
    engine = scripted(begun, next_answer=STREAM + FIRST + STOP)
    try:
        *_, error = events_of(httpx.post(start(engine.url).url + CHAT, json=body))
        assert error["error"]["code"] == "upstream_unreachable"
    except httpx.RemoteProtocolError:
        assert body is PLAIN, "it is relayed, and so incomplete"
    assert len(engine.heads) == 1


def test_an_engine_that_is_back_before_the_repetition(
    start: Start, scripted: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    engines: list[Scripted] = []

    async def come_back(_: float) -> None:
        engines.append(scripted(STREAM + FIRST + STOP, port=port))

    monkeypatch.setattr(upstream, "asyncio", SimpleNamespace(sleep=come_back))
    gateway = start(f"http://127.0.0.1:{port}")
    *_, done = events_of(httpx.post(gateway.url + CHAT, json=STREAMED))
    assert done == "[DONE]"
    assert len(engines[0].heads) == len(engines) == 1


def test_the_next_turn_is_repeated_as_well(start: Start, scripted: Script) -> None:
    engine = scripted(STREAM, held=CALL + FINISHED, next_answer=refusal(503), then=STREAM + FIRST + STOP)
    gateway = start(engine.url)
    with httpx.stream("POST", gateway.url + CHAT, json=STREAMED, headers={"x-session-id": "7"}) as answer:
        lines = (line[6:] for line in answer.iter_lines() if line)
        output = {"name": "read", "params": {"path": "a"}, "output": "the text"}
        path = f"{gateway.url}/v1/cache-tool-output/{json.loads(next(lines))['id']}"
        assert httpx.post(path, json=[output]).json() == {"cached": 1}
        engine.go_on.set()
        *events, done = lines
    assert done == "[DONE]"
    assert json.loads(events[-1])["choices"][0]["finish_reason"] == "stop"
    assert len(engine.heads) == 3
    # A balancer behind the gateway sends all of them to the engine that has the prefix.
    assert [re.search(rb"(?i)x-session-id: (\d)", head)[1] for head in engine.heads] == [b"7"] * 3  # type: ignore[index]


def test_another_model_in_the_next_turn_ends_the_stream(start: Start, scripted: Script) -> None:
    named = [
        each.replace(b'{"id"', b'{"model": "%s", "id"' % name)
        for each, name in ((CALL, b"one"), (FIRST, b"two"))
    ]
    engine = scripted(STREAM, held=named[0] + FINISHED, next_answer=STREAM + named[1] + STOP)
    gateway = start(engine.url)
    with httpx.stream("POST", gateway.url + CHAT, json=STREAMED) as answer:
        lines = (line[6:] for line in answer.iter_lines() if line)
        output = {"name": "read", "params": {"path": "a"}, "output": "the text"}
        path = f"{gateway.url}/v1/cache-tool-output/{json.loads(next(lines))['id']}"
        httpx.post(path, json=[output])
        engine.go_on.set()
        *events, error = lines
    assert "hi" not in str(events)
    assert "'two' in place of 'one'" in json.loads(error)["error"]["message"]
