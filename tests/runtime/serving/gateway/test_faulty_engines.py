"""Engines that fail, break off, never end, or send what was not requested."""

from __future__ import annotations

import gzip
import json
from typing import Any

import httpx
import openai
import pytest

from agentrt.runtime.serving.gateway import sse
from tests.runtime.serving.gateway.scripted import STREAMED, Script, Scripted
from tests.runtime.serving.http.serving import Running, Start

STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 1000\r\n\r\n"
FIRST = b'data: {"id": "x", "choices": [{"index": 0, "delta": {"content": "hi"}}]}\n\n'
FINISHED = b'data: {"id": "x", "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}\n\n'
READ = r'{"index": 0, "id": "c", "function": {"name": "read", "arguments": "{\"path\": \"a\"}"}}'
CALL = FIRST.replace(b'{"content": "hi"}', b'{"tool_calls": [%b]}' % READ.encode())


def events_of(answer: httpx.Response) -> list[Any]:
    """The data of all events, as JSON except ``[DONE]``."""
    found = [line[6:] for line in answer.text.splitlines() if line]
    return [data if data == "[DONE]" else json.loads(data) for data in found]


def answered(gateway: Running, engine: Scripted) -> list[Any]:
    """The data of all events of an answer whose call has an output before the engine makes it."""
    with httpx.stream("POST", f"{gateway.url}/v1/chat/completions", json=STREAMED, timeout=60) as answer:
        lines = (line[6:] for line in answer.iter_lines() if line)
        opening = json.loads(next(lines))
        output = {"name": "read", "params": {"path": "a"}, "output": "the text"}
        path = f"{gateway.url}/v1/cache-tool-output/{opening['id']}"
        assert httpx.post(path, json=[output]).json() == {"cached": 1}
        engine.go_on.set()
        return [opening, *(data if data == "[DONE]" else json.loads(data) for data in lines)]


def test_an_engine_that_is_too_slow(start: Start, scripted: Script) -> None:
    gateway = start(scripted(b"", stays=True).url, upstream_timeout_s=0.2)
    for method, path in (("POST", "/v1/chat/completions"), ("GET", "/v1/models"), ("GET", "/x")):
        answer = httpx.request(method, gateway.url + path, json=STREAMED)
        assert answer.status_code == 504
        assert answer.json()["error"]["code"] == "upstream_timeout"


@pytest.mark.parametrize(
    "answer", [b"", b"nonsense\r\n\r\n", b"HTTP/1.1 999 Odd\r\ncontent-length: 0\r\n\r\n"]
)
def test_an_engine_that_does_not_speak_http(start: Start, scripted: Script, answer: bytes) -> None:
    gateway = start(scripted(answer).url)
    assert httpx.post(f"{gateway.url}/v1/chat/completions", json=STREAMED).status_code == 502
    assert httpx.get(f"{gateway.url}/v1/models").status_code == 502


RELAYED = STREAMED | {"tools": None}
"""A stream that the gateway never continues."""


@pytest.mark.parametrize(("stays", "code"), [(False, "upstream_unreachable"), (True, "upstream_timeout")])
def test_an_engine_that_breaks_off_a_stream(
    start: Start, scripted: Script, stays: bool, code: str, caplog: pytest.LogCaptureFixture
) -> None:
    gateway = start(scripted(HEAD + FIRST, stays=stays).url, upstream_timeout_s=0.5)
    for body in (STREAMED, RELAYED):
        answer = httpx.post(f"{gateway.url}/v1/chat/completions", json=body)
        *_, word, error = events_of(answer)
        assert word["choices"][0]["delta"] == {"content": "hi"}
        assert error["error"]["code"] == code
    with pytest.raises(httpx.RemoteProtocolError):  # of another kind, and so incomplete
        httpx.post(f"{gateway.url}/v1/completions", json=RELAYED)
    assert "the engine broke off" in caplog.text
    assert "ASGI" not in caplog.text, "uvicorn takes the incomplete answer for a fault of the gateway"


def test_stream_events_that_are_not_chunks(start: Start, scripted: Script) -> None:
    body = ': ping\n\nevent: odd\ndata: 7\n\ndata: [\n\ndata: {"error": {"message": "broken"}}\n\n'
    text = 'data: {"id": "x", "choices": [{"index": 0, "delta": {"content": "a\u2028b"}}]}\n\n'
    gateway = start(scripted(STREAM + (body + text).encode()).url)
    answer = httpx.post(f"{gateway.url}/v1/chat/completions", json=STREAMED)
    *events, done, after = answer.text.split("\n\n")
    assert "\n\n".join(events[1:-1]) + "\n\n" == body
    assert json.loads(events[-1][6:])["choices"][0]["delta"]["content"] == "a\u2028b"
    assert (done, after) == ("data: [DONE]", "")


@pytest.mark.parametrize("body", [STREAMED, RELAYED])
@pytest.mark.parametrize("cut", [b"", FINISHED[:30], FINISHED.rstrip(), b": ping\n"])
def test_an_engine_that_closes_before_the_answer_is_complete(
    start: Start, scripted: Script, cut: bytes, body: Any
) -> None:
    """Without a length or chunks, HTTP takes any end of the connection for the end of the body."""
    gateway = start(scripted(STREAM + FIRST + cut).url)
    *_, word, error = events_of(httpx.post(f"{gateway.url}/v1/chat/completions", json=body))
    assert word["choices"][0]["delta"] == {"content": "hi"}
    assert error["error"]["code"] == "upstream_unreachable"


@pytest.mark.matrix
@pytest.mark.parametrize(
    "done", [b"data: [DONE]\n\n", b"data:[DONE]\r\n\r\n", b"event: x\ndata:  [DONE] \n\n"]
)
@pytest.mark.parametrize("before", [b"", FIRST, CALL])
@pytest.mark.parametrize("body", [STREAMED, RELAYED])
def test_a_stream_that_is_done_before_the_answer_is_complete(
    start: Start, scripted: Script, body: Any, before: bytes, done: bytes
) -> None:
    gateway = start(scripted(STREAM + before + done).url)
    answer = httpx.post(f"{gateway.url}/v1/chat/completions", json=body)
    *_, error = events_of(answer)
    assert error["error"]["code"] == "upstream_unreachable"
    assert b"[DONE]" not in answer.content
    with (
        openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0, timeout=60) as client,
        pytest.raises(openai.APIError, match="its stream ended before the answer was complete"),
    ):
        list(client.chat.completions.create(**body))


def test_a_next_turn_that_is_done_before_it_is_complete(start: Start, scripted: Script) -> None:
    engine = scripted(STREAM, held=CALL + FINISHED, next_answer=STREAM + FIRST + b"data: [DONE]\n\n")
    *_, result, word, error = answered(start(engine.url), engine)
    assert result["choices"][0]["delta"]["tool_results"][0]["content"] == "the text"
    assert word["choices"][0]["delta"] == {"content": "hi"}
    assert error["error"]["code"] == "upstream_unreachable"


DEEP = b'{"path": %b}' % (b"[" * 5000 + b"]" * 5000)


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
def test_an_event_that_cannot_be_read_is_an_error(start: Start, scripted: Script, event: bytes) -> None:
    """Relayed as it is, it would have the engine's id, and a call the number of one of another turn."""
    gateway = start(scripted(STREAM + FIRST + event + FINISHED + b"data: [DONE]\n\n").url)
    answer = httpx.post(f"{gateway.url}/v1/chat/completions", json=STREAMED)
    _, word, error = events_of(answer)
    assert word["choices"][0]["delta"] == {"content": "hi"}
    assert (error["error"]["type"], error["error"]["code"]) == ("server_error", "upstream_unreadable")
    assert "without stream" in error["error"]["message"]


def test_deep_arguments_arrive_as_the_text_that_they_are(start: Start, scripted: Script) -> None:
    call = call_of(json.dumps(DEEP.decode()).encode())
    gateway = start(scripted(STREAM + call + FINISHED + b"data: [DONE]\n\n").url)
    _, sent, finish, done = events_of(httpx.post(f"{gateway.url}/v1/chat/completions", json=STREAMED))
    assert sent["choices"][0]["delta"]["tool_calls"][0]["function"]["arguments"] == DEEP.decode()
    assert (finish["choices"][0]["finish_reason"], done) == ("tool_calls", "[DONE]")


def test_a_relayed_stream_that_ends_within_an_event_stays_incomplete(start: Start, scripted: Script) -> None:
    gateway = start(scripted(STREAM + FIRST + FINISHED[:30]).url)
    with pytest.raises(httpx.RemoteProtocolError):
        httpx.post(f"{gateway.url}/v1/completions", json=RELAYED)
    for path in ("/v1/completions", "/v1/chat/completions"):
        for end in (b"", b"data: {\n\ndata: [DONE]\n\n: bye\n\n", b"data: [DONE]", b"data: [DONE]\r\n"):
            gateway = start(scripted(STREAM + FIRST + FINISHED + end).url)
            assert httpx.post(gateway.url + path, json=RELAYED).content == FIRST + FINISHED + end


@pytest.mark.parametrize("more", [{"tools": None}, {"n": 2}, {"tool_choice": "required"}])
def test_streams_that_are_never_continued_pass_unchanged(start: Start, scripted: Script, more: Any) -> None:
    body = b": ping\n\ndata: [\n\n" + FIRST + b'data: {"error": {"message": "x"}}\n\ndata: [DONE]\n\n'
    gateway = start(scripted(STREAM + body).url)
    assert httpx.post(f"{gateway.url}/v1/chat/completions", json=STREAMED | more).content == body
    part = httpx.post(
        f"{start(scripted(HEAD + FIRST).url).url}/v1/contexts/c/chat/completions", json=STREAMED
    )
    first, error = events_of(part)
    assert first == json.loads(FIRST[6:])
    assert error["error"]["code"] == "upstream_unreachable"


@pytest.mark.parametrize("stays", [False, True])
@pytest.mark.parametrize("end", [b"", b'data: {"usage": {"comp'])
def test_a_complete_answer_needs_no_end_of_its_stream(
    start: Start, scripted: Script, monkeypatch: pytest.MonkeyPatch, stays: bool, end: bytes
) -> None:
    monkeypatch.setattr(sse, "_END_S", 0.05)
    gateway = start(scripted(STREAM + CALL + FINISHED + end, stays=stays).url, upstream_timeout_s=2)
    *_, call, finish, done = events_of(httpx.post(f"{gateway.url}/v1/chat/completions", json=STREAMED))
    assert call["choices"][0]["delta"]["tool_calls"][0]["function"]["name"] == "read"
    assert finish["choices"][0]["finish_reason"] == "tool_calls"
    assert done == "[DONE]"


def test_an_answered_call_is_continued_although_its_stream_does_not_end(
    start: Start, scripted: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sse, "_END_S", 0.05)
    end = FINISHED.replace(b"tool_calls", b"stop")
    engine = scripted(STREAM, held=CALL + FINISHED, next_answer=STREAM + FIRST + end, stays=True)
    *events, done = answered(start(engine.url, upstream_timeout_s=20), engine)
    assert done == "[DONE]"
    _, _, result, word, finish = (event["choices"][0] for event in events)
    assert result["delta"]["tool_results"][0]["content"] == "the text"
    assert word["delta"] == {"content": "hi"}
    assert finish["finish_reason"] == "stop"


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/models", "/v1/models/m", "/x"])
def test_a_compressed_answer_is_never_decompressed(start: Start, scripted: Script, path: str) -> None:
    """A few kilobytes could become gigabytes. The gateway has requested a plain answer."""
    kind = b"text/event-stream" if "chat" in path else b"application/json"
    body = gzip.compress(FIRST if "chat" in path else b'{"id": "m"}')
    head = b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ncontent-encoding: gzip\r\n\r\n" % kind
    gateway = start(scripted(head + body).url)
    method = "POST" if "chat" in path else "GET"
    with httpx.stream(method, gateway.url + path, json=STREAMED) as answer:
        assert (answer.status_code, answer.headers["content-encoding"]) == (200, "gzip")
        assert answer.headers["content-type"].encode() == kind
        assert b"".join(answer.iter_raw()) == body


def test_an_answer_that_calls_itself_unencoded_is_read(start: Start, scripted: Script) -> None:
    head = STREAM.replace(b"\r\n\r\n", b"\r\ncontent-encoding: identity\r\n\r\n")
    gateway = start(scripted(head + FIRST + FINISHED).url)
    *_, done = events_of(httpx.post(f"{gateway.url}/v1/chat/completions", json=STREAMED))
    assert done == "[DONE]"


@pytest.mark.parametrize(
    "more", [b"a:\r\n" * 9000, b"\r\nHTTP/1.1 103 \r\n" * 3000], ids=["head", "early hints"]
)
def test_an_engine_whose_head_is_too_large(start: Start, scripted: Script, more: bytes) -> None:
    head = b"HTTP/1.1 103 Early Hints\r\n" + more + b"\r\n" + STREAM
    gateway = start(scripted(head + FIRST + FINISHED).url)
    answer = httpx.post(f"{gateway.url}/v1/chat/completions", json=STREAMED)
    assert answer.status_code == 502
    assert "the head of its answer has more than 32768 bytes" in answer.json()["error"]["message"]


def test_a_list_of_too_many_models_passes_unchanged(start: Start, scripted: Script) -> None:
    body = b'{"data": [' + b"{}," * 100_000 + b"{}]}"
    gateway = start(scripted(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n" + body).url)
    assert httpx.get(f"{gateway.url}/v1/models").content == body
