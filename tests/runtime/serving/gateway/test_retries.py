"""Requests that the gateway repeats, and those that it must not."""

from __future__ import annotations

import re
import socket
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from agentrt.runtime.serving.gateway import upstream
from tests.runtime.serving.gateway.scripted import (
    CALL,
    CHAT,
    FINISHED,
    FIRST,
    STOP,
    STREAM,
    STREAMED,
    Play,
    Script,
    Scripted,
)
from tests.runtime.serving.gateway.test_faulty_engines import HEAD, answered, events, events_of
from tests.runtime.serving.http.serving import Start

PLAIN: Any = {"model": "m", "messages": []}
ANSWER = STREAM + FIRST + STOP


def refusal(status: int, more: bytes = b"") -> bytes:
    return b"HTTP/1.1 %d Refused\r\n%bcontent-length: 2\r\n\r\nno" % (status, more)


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upstream, "_PAUSES_S", (0.0, 0.0))


@pytest.mark.parametrize("status", [502, 503])
@pytest.mark.parametrize("body", [STREAMED, PLAIN])
def test_a_refused_request_is_sent_again(play: Play, fake_engine: Scripted, status: int, body: Any) -> None:
    answer = httpx.post(play(refusal(status), next_answer=ANSWER).url + CHAT, json=body)
    assert answer.status_code == 200
    assert b"hi" in answer.content
    assert len(fake_engine.heads) == 2


def test_the_last_refusal_is_the_clients(play: Play, fake_engine: Scripted) -> None:
    answer = httpx.post(play(refusal(503)).url + CHAT, json=STREAMED)
    assert (answer.status_code, answer.text) == (503, "no")
    assert len(fake_engine.heads) == 3


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
def test_what_is_not_repeated(
    play: Play, fake_engine: Scripted, method: str, path: str, answer: bytes
) -> None:
    gateway = play(answer, next_answer=ANSWER)
    assert httpx.request(method, gateway.url + path, json=STREAMED).status_code >= 429
    assert len(fake_engine.heads) == 1


@pytest.mark.parametrize("body", [STREAMED, PLAIN])
@pytest.mark.parametrize("begun", [HEAD, HEAD + FIRST])
def test_no_answer_that_has_begun_is_repeated(
    play: Play, fake_engine: Scripted, body: Any, begun: bytes
) -> None:
    try:
        *_, error = events(play(begun, next_answer=ANSWER), body)
        assert error["error"]["code"] == "upstream_unreachable"
    except httpx.RemoteProtocolError:
        assert body is PLAIN, "it is relayed, and so incomplete"
    assert len(fake_engine.heads) == 1


def test_an_engine_that_is_back_before_the_repetition(
    start: Start, scripted: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    engines: list[Scripted] = []

    async def come_back(_: float) -> None:
        engines.append(scripted(ANSWER, port=port))

    monkeypatch.setattr(upstream, "asyncio", SimpleNamespace(sleep=come_back))
    gateway = start(f"http://127.0.0.1:{port}")
    assert events_of(httpx.post(gateway.url + CHAT, json=STREAMED))[-1] == "[DONE]"
    assert len(engines[0].heads) == len(engines) == 1


def test_the_next_turn_is_repeated_as_well(play: Play, fake_engine: Scripted) -> None:
    gateway = play(STREAM, held=CALL + FINISHED, next_answer=refusal(503), then=ANSWER)
    *_, end, done = answered(gateway, fake_engine, **{"x-session-id": "7"})
    assert (end["choices"][0]["finish_reason"], done) == ("stop", "[DONE]")
    # A balancer behind the gateway sends all of them to the engine that has the prefix.
    assert len(fake_engine.heads) == 3
    assert all(re.search(rb"(?i)x-session-id: 7\b", head) for head in fake_engine.heads)


def test_another_model_in_the_next_turn_ends_the_stream(play: Play, fake_engine: Scripted) -> None:
    call, first = (
        each.replace(b'{"id"', b'{"model": "%s", "id"' % name)
        for each, name in ((CALL, b"one"), (FIRST, b"two"))
    )
    gateway = play(STREAM, held=call + FINISHED, next_answer=STREAM + first + STOP)
    *sent, error = answered(gateway, fake_engine)
    assert "hi" not in str(sent)
    assert "'two' in place of 'one'" in error["error"]["message"]
