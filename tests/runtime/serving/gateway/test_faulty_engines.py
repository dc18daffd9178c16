"""Engines that fail, refuse, break off, never end, or send what was not requested."""

from __future__ import annotations

import gzip
import json
import re
import socket
from types import SimpleNamespace
from typing import Any

import httpx
import openai
import pytest

from agentrt.runtime.serving.gateway import sse, upstream
from tests.runtime.serving.gateway.scripted import (
    CALL,
    CHAT,
    DONE,
    FINISHED,
    FIRST,
    STOP,
    STREAM,
    STREAMED,
    Play,
    Script,
    Scripted,
    streaming,
    submit,
)
from tests.runtime.serving.http.serving import Running, Start

HEAD = STREAM.replace(b"\r\n\r\n", b"\r\ncontent-length: 1000\r\n\r\n")
CONTEXT = "/v1/contexts/c/chat/completions"
RELAYED = STREAMED | {"tools": None}
"""A stream that the gateway never continues."""
DEEP = b'{"path": %b}' % (b"[" * 5000 + b"]" * 5000)


def events_of(answer: httpx.Response) -> list[Any]:
    """The data of all events, as JSON except ``[DONE]``."""
    found = [line[6:] for line in answer.text.splitlines() if line]
    return [data if data == "[DONE]" else json.loads(data) for data in found]


def events(gateway: Running, body: Any = STREAMED) -> list[Any]:
    return events_of(httpx.post(gateway.url + CHAT, json=body))


def answered(gateway: Running, engine: Scripted, **headers: str) -> list[Any]:
    """The events behind the first of an answer whose call has an output before the engine makes it."""
    with streaming(gateway, **headers) as (id, data):
        assert submit(gateway, id) == 1
        engine.go_on.set()
        return list(data)


def test_an_engine_that_is_too_slow(start: Start, fake_engine: Scripted) -> None:
    fake_engine.play(b"", stays=True)
    gateway = start(fake_engine.url, upstream_timeout_s=0.2)
    for method, path in (("POST", CHAT), ("GET", "/v1/models"), ("GET", "/x")):
        answer = httpx.request(method, gateway.url + path, json=STREAMED)
        assert (answer.status_code, answer.json()["error"]["code"]) == (504, "upstream_timeout")


@pytest.mark.parametrize("stays", [False, True])
def test_an_engine_that_breaks_off_a_stream(
    start: Start, fake_engine: Scripted, stays: bool, caplog: pytest.LogCaptureFixture
) -> None:
    fake_engine.play(HEAD + FIRST, stays=stays)
    gateway = start(fake_engine.url, upstream_timeout_s=0.3 if stays else 60.0)
    for body in (STREAMED, RELAYED):
        *_, word, error = events(gateway, body)
        assert word["choices"][0]["delta"] == {"content": "hi"}
        assert error["error"]["code"] == ("upstream_timeout" if stays else "upstream_unreachable")
    with pytest.raises(httpx.RemoteProtocolError):  # of another kind, and so incomplete
        httpx.post(f"{gateway.url}/v1/completions", json=RELAYED)
    assert "the engine broke off" in caplog.text
    assert "ASGI" not in caplog.text, "uvicorn takes the incomplete answer for a fault of the gateway"


def test_stream_events_that_are_not_chunks(play: Play) -> None:
    body = ': ping\n\nevent: odd\ndata: 7\n\ndata: [\n\ndata: {"error": {"message": "broken"}}\n\n'
    text = 'data: {"id": "x", "choices": [{"index": 0, "delta": {"content": "a\u2028b"}}]}\n\n'
    gateway = play(STREAM + (body + text).encode())
    *sent, done, after = httpx.post(gateway.url + CHAT, json=STREAMED).text.split("\n\n")
    assert "\n\n".join(sent[1:-1]) + "\n\n" == body
    assert json.loads(sent[-1][6:])["choices"][0]["delta"]["content"] == "a\u2028b"
    assert (done, after) == ("data: [DONE]", "")


@pytest.mark.parametrize(("path", "body"), [(CHAT, STREAMED), (CHAT, RELAYED), (CONTEXT, STREAMED)])
@pytest.mark.parametrize("cut", [b"", FINISHED[:30], FINISHED.rstrip(), b": ping\n"])
def test_an_engine_that_closes_before_the_answer_is_complete(
    play: Play, path: str, body: Any, cut: bytes
) -> None:
    """Without a length or chunks, HTTP takes any end of the connection for the end of the body."""
    *_, word, error = events_of(httpx.post(play(STREAM + FIRST + cut).url + path, json=body))
    assert word["choices"][0]["delta"] == {"content": "hi"}
    assert error["error"]["code"] == "upstream_unreachable"


@pytest.mark.matrix
@pytest.mark.parametrize("done", [DONE, b"data:[DONE]\r\n\r\n", b"event: x\ndata:  [DONE] \n\n"])
@pytest.mark.parametrize("before", [b"", FIRST, CALL])
@pytest.mark.parametrize("body", [STREAMED, RELAYED])
def test_a_stream_that_is_done_before_the_answer_is_complete(
    play: Play, body: Any, before: bytes, done: bytes
) -> None:
    gateway = play(STREAM + before + done)
    answer = httpx.post(gateway.url + CHAT, json=body)
    assert events_of(answer)[-1]["error"]["code"] == "upstream_unreachable"
    assert b"[DONE]" not in answer.content
    with (
        openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0, timeout=60) as client,
        pytest.raises(openai.APIError, match="its stream ended before the answer was complete"),
    ):
        list(client.chat.completions.create(**body))


def call_of(arguments: bytes) -> bytes:
    """``CALL`` with other JSON in the place of the text of its arguments."""
    text = rb'"{\"path\": \"a\"}"'
    assert text in CALL
    return CALL.replace(text, arguments)


@pytest.mark.parametrize(
    "event",
    [
        call_of(DEEP),
        call_of(DEEP).replace(b"}]}\n", b', "finish_reason": "tool_calls"}]}\n'),
        b"data: {\n\n",
        b'data:  {"choices": [{"delta": {"content": "\\ud800"}}]}\n\n',
        b'data: {"choices": [{"delta": {"x": [%b1]}}]}\n\n' % (b"1," * 100_000),
        b'data: {"choices": [{"delta": {"x": [%b1]}}]}\n\n' % ((b"9" * 4200 + b",") * 400),
        b"data: {}\n" * 10_001 + b"\n",
    ],
    ids=["deep call", "deep call that ends the turn", "cut", "half a character", "values", "digits", "lines"],
)
def test_an_event_that_cannot_be_read_is_an_error(play: Play, event: bytes) -> None:
    """Relayed as it is, it would have the engine's id, and a call the number of one of another turn."""
    _, word, error = events(play(STREAM + FIRST + event + FINISHED + DONE))
    assert word["choices"][0]["delta"] == {"content": "hi"}
    assert (error["error"]["type"], error["error"]["code"]) == ("server_error", "upstream_unreadable")
    assert "without stream" in error["error"]["message"]


def test_deep_arguments_arrive_as_the_text_that_they_are(play: Play) -> None:
    call = call_of(json.dumps(DEEP.decode()).encode())
    unencoded = STREAM.replace(b"\r\n\r\n", b"\r\ncontent-encoding: identity\r\n\r\n")
    _, sent, finish, done = events(play(unencoded + call + FINISHED + DONE))
    assert sent["choices"][0]["delta"]["tool_calls"][0]["function"]["arguments"] == DEEP.decode()
    assert (finish["choices"][0]["finish_reason"], done) == ("tool_calls", "[DONE]")


def test_a_relayed_stream_that_ends_within_an_event_stays_incomplete(play: Play) -> None:
    gateway = play(STREAM + FIRST + FINISHED[:30])
    with pytest.raises(httpx.RemoteProtocolError):
        httpx.post(f"{gateway.url}/v1/completions", json=RELAYED)
    for path in ("/v1/completions", CHAT):
        for end in (b"", b"data: {\n\ndata: [DONE]\n\n: bye\n\n", b"data: [DONE]", b"data: [DONE]\r\n"):
            body = FIRST + FINISHED + end
            assert httpx.post(play(STREAM + body).url + path, json=RELAYED).content == body


@pytest.mark.parametrize("more", [{"tools": None}, {"n": 2}, {"tool_choice": "required"}])
def test_streams_that_are_never_continued_pass_unchanged(play: Play, more: Any) -> None:
    body = b": ping\n\ndata: [\n\n" + FIRST + b'data: {"error": {"message": "x"}}\n\n' + DONE
    assert httpx.post(play(STREAM + body).url + CHAT, json=STREAMED | more).content == body


@pytest.mark.parametrize("stays", [False, True])
@pytest.mark.parametrize("end", [b"", b'data: {"usage": {"comp'])
def test_a_complete_answer_needs_no_end_of_its_stream(
    play: Play, monkeypatch: pytest.MonkeyPatch, stays: bool, end: bytes
) -> None:
    monkeypatch.setattr(sse, "_END_S", 0.05)
    *_, call, finish, done = events(play(STREAM + CALL + FINISHED + end, stays=stays))
    assert call["choices"][0]["delta"]["tool_calls"][0]["function"]["name"] == "read"
    assert finish["choices"][0]["finish_reason"] == "tool_calls"
    assert done == "[DONE]"


def test_an_answered_call_is_continued_although_its_stream_does_not_end(
    play: Play, fake_engine: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sse, "_END_S", 0.05)
    gateway = play(STREAM, held=CALL + FINISHED, next_answer=STREAM + FIRST + STOP, stays=True)
    *sent, done = answered(gateway, fake_engine)
    assert done == "[DONE]"
    _, result, word, finish = (event["choices"][0] for event in sent)
    assert result["delta"]["tool_results"][0]["content"] == "the text"
    assert (word["delta"], finish["finish_reason"]) == ({"content": "hi"}, "stop")


@pytest.mark.parametrize("path", [CHAT, "/v1/models", "/v1/models/m", "/x"])
def test_a_compressed_answer_is_never_decompressed(play: Play, path: str) -> None:
    """A few kilobytes could become gigabytes. The gateway has requested a plain answer."""
    kind = b"text/event-stream" if path == CHAT else b"application/json"
    body = gzip.compress(FIRST if path == CHAT else b'{"id": "m"}')
    gateway = play(b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ncontent-encoding: gzip\r\n\r\n" % kind + body)
    with httpx.stream("POST" if path == CHAT else "GET", gateway.url + path, json=STREAMED) as answer:
        assert (answer.status_code, answer.headers["content-encoding"]) == (200, "gzip")
        assert answer.headers["content-type"].encode() == kind
        assert b"".join(answer.iter_raw()) == body


EARLY = b"HTTP/1.1 103 Early Hints\r\n"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"", "cannot be reached"),
        (b"nonsense\r\n\r\n", "cannot be reached"),
        (b"SSH-2.0-x\r\n", "cannot be reached"),
        (b"HTTP/1.1 999 Odd\r\ncontent-length: 0\r\n\r\n", "its status is 999"),
        (b"HTTP/1.1 200 OK\r\n bad\r\n\r\n", "cannot be reached"),
        (b"HTTP/1.1 200 OK\r\nx: " + b"x" * 200_000, "has more than 32768 bytes"),
        (EARLY + b"a:\r\n" * 9000 + b"\r\n" + STREAM + FIRST + FINISHED, "has more than 32768 bytes"),
        (EARLY + b"\r\nHTTP/1.1 103 \r\n" * 3000 + b"\r\n" + STREAM + FINISHED, "has more than 32768 bytes"),
    ],
    ids=["nothing", "nonsense", "SSH", "status", "header", "endless", "large", "early hints"],
)
def test_an_engine_whose_head_cannot_be_read(play: Play, answer: bytes, reason: str) -> None:
    gateway = play(answer)
    for method, path in (("POST", CHAT), ("GET", "/v1/models"), ("GET", "/x")):
        refused = httpx.request(method, gateway.url + path, json=STREAMED)
        assert (refused.status_code, refused.json()["error"]["code"]) == (502, "upstream_unreachable")
        assert reason in refused.json()["error"]["message"]


def test_a_list_of_too_many_models_passes_unchanged(play: Play) -> None:
    body = b'{"data": [' + b"{}," * 100_000 + b"{}]}"
    gateway = play(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n" + body)
    assert httpx.get(f"{gateway.url}/v1/models").content == body


PLAIN: Any = {"model": "m", "messages": []}
ANSWER = STREAM + FIRST + STOP


def refusal(status: int, more: bytes = b"") -> bytes:
    return b"HTTP/1.1 %d Refused\r\n%bcontent-length: 2\r\n\r\nno" % (status, more)


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests are repeated without a pause."""
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


@pytest.mark.parametrize(
    ("next_turn", "problem"),
    [
        (FIRST + DONE, "its stream ended before the answer was complete"),
        (FIRST.replace(b'{"id"', b'{"model": "two", "id"') + STOP, "'two' in place of 'one'"),
    ],
)
def test_a_next_turn_that_is_incomplete_or_by_another_model_ends_the_stream(
    play: Play, fake_engine: Scripted, next_turn: bytes, problem: str
) -> None:
    call = CALL.replace(b'{"id"', b'{"model": "one", "id"')
    *sent, error = answered(play(STREAM, held=call + FINISHED, next_answer=STREAM + next_turn), fake_engine)
    assert "the text" in str(sent)
    assert ("hi" in str(sent)) is ("two" not in problem)
    assert problem in error["error"]["message"]
