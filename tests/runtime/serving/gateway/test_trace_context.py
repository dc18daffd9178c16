"""The engine behind a gateway continues the client's trace."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager

import httpx
import pytest
from opentelemetry.trace import SpanKind, StatusCode

from agentrt.otel import api, propagation
from agentrt.otel.propagation import served
from agentrt.runtime.serving.http import application
from tests.recorded_telemetry import Recorded, attributes, telemetry
from tests.runtime.serving.gateway.scripted import STREAMED, Play, Scripted
from tests.runtime.serving.http.serving import Start
from tests.runtime.serving.server.conftest import HELLO
from tests.runtime.serving.server.test_trace_context import PARENT, TRACE, TRACEPARENT

__all__ = ["telemetry"]

BODY = {"messages": HELLO, "max_tokens": 2}


@pytest.mark.parametrize("stream", [False, True])
def test_the_gateway_s_request_is_between_client_and_engine(
    http: httpx.Client, telemetry: Recorded, stream: bool
) -> None:
    body = {**BODY, "stream": stream, "tools": []}
    assert http.post("/v1/chat/completions", json=body, headers=TRACEPARENT).status_code == 200
    spans = telemetry.wait_for("POST", 3)
    (sent,) = (span for span in spans if span.kind is SpanKind.CLIENT)
    by_parent = {span.parent.span_id: span for span in [*spans, *telemetry.spans("chat")] if span.parent}
    chain, below = [], int(PARENT, 16)
    while below in by_parent:
        chain.append(by_parent[below])
        below = chain[-1].context.span_id
    kinds = [SpanKind.SERVER, SpanKind.CLIENT, SpanKind.SERVER, SpanKind.INTERNAL]
    assert [span.kind for span in chain] == kinds
    assert {span.context.trace_id for span in chain} == {int(TRACE, 16)}
    assert attributes(sent)["http.response.status_code"] == 200


def test_an_engine_that_is_not_there_is_a_failed_span(start: Start, telemetry: Recorded) -> None:
    assert httpx.get(f"{start('http://127.0.0.1:9').url}/v1/models").status_code == 502
    sent, served = telemetry.wait_for("GET", 2)
    assert attributes(sent)["error.type"] == "ConnectError"
    assert attributes(served)["error.type"] == "502"


def test_an_engine_that_refuses_is_a_failed_span(http: httpx.Client, telemetry: Recorded) -> None:
    assert http.get("/health").status_code == http.get("/metrics").status_code == 200  # which make no spans
    assert http.get("/v1/nothing?secret=otter", headers=TRACEPARENT).status_code == 404
    (sent,) = (span for span in telemetry.wait_for("GET", 3) if span.kind is SpanKind.CLIENT)
    assert sent.status.status_code is StatusCode.ERROR
    assert attributes(sent)["error.type"] == "404"
    assert "otter" not in sent.to_json()


@pytest.mark.parametrize("installed", [False, True])
def test_a_trace_passes_a_gateway_that_does_not_trace(
    http: httpx.Client, monkeypatch: pytest.MonkeyPatch, installed: bool
) -> None:
    """Neither without a provider nor without OpenTelemetry is the client's trace cut."""
    seen: list[str] = []

    def noting(headers: Mapping[str, str]) -> AbstractContextManager[None]:
        seen.append(headers["traceparent"])
        return served(headers)

    monkeypatch.setattr(application, "served", noting)
    for module in (api, propagation):
        monkeypatch.setattr(module, "installed", lambda: installed)
    assert http.post("/v1/chat/completions", json=BODY, headers=TRACEPARENT).status_code == 200
    assert seen == [TRACEPARENT["traceparent"]] * 2


@pytest.mark.parametrize("continued", [False, True])
@pytest.mark.parametrize(
    ("head", "rest"),
    [
        (b"content-length: 900\r\n\r\n", b""),
        (b"\r\n", b"data: {"),
        (b"\r\n", b'data: {"choices": []}\n\ndata: {"choi'),
    ],
)
def test_an_engine_that_breaks_off_is_a_failed_span_of_its_whole_length(
    play: Play, fake_engine: Scripted, telemetry: Recorded, head: bytes, rest: bytes, continued: bool
) -> None:
    """In a stream that the gateway continues after calls, and in one that it relays."""
    begins = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n" + head + b'data: {"choices": []}\n\n'
    gateway = play(begins, held=rest or b"data: ")
    body = STREAMED if continued else {**STREAMED, "tools": []}
    with httpx.stream("POST", f"{gateway.url}/v1/chat/completions", json=body, timeout=60) as answer:
        pieces = answer.iter_raw()
        next(pieces)
        assert telemetry.spans() == []
        fake_engine.go_on.set()
        try:
            list(pieces)
        except httpx.RemoteProtocolError:
            assert not continued
    spans = telemetry.wait_for("POST", 2)
    assert [span.kind for span in spans] == [SpanKind.CLIENT, SpanKind.SERVER]
    for span in spans:
        assert span.status.status_code is StatusCode.ERROR
        assert attributes(span)["error.type"] == "RemoteProtocolError"
        assert attributes(span)["http.response.status_code"] == 200
