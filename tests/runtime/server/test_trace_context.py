"""Requests continue the trace of their client."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from opentelemetry.trace import SpanKind

from agentrt.runtime.http.identity import Tokens
from tests.recorded_telemetry import LATEST, Recorded, attributes, telemetry
from tests.runtime.server.conftest import HELLO

__all__ = ["telemetry"]

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRACEPARENT = {"traceparent": f"00-{TRACE}-{PARENT}-01"}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", {"messages": HELLO, "max_tokens": 2, "n": 2}),
        ("/v1/completions", {"prompt": ["One", "Two"], "max_tokens": 2}),
        ("/v1/responses", {"input": "Hello!", "max_output_tokens": 16}),
        ("/api/chat", {"messages": HELLO, "model": "nano", "options": {"num_predict": 2}}),
    ],
)
def test_each_generation_is_a_span_of_the_client_s_trace(
    http: httpx.Client, telemetry: Recorded, path: str, body: dict[str, Any], stream: bool
) -> None:
    answer = http.post(path, json={**body, "stream": stream}, headers=TRACEPARENT)
    assert answer.status_code == 200
    spans = telemetry.spans()
    assert len(spans) == (2 if path in ("/v1/chat/completions", "/v1/completions") else 1)
    for span in spans:
        assert span.parent is not None
        assert (f"{span.context.trace_id:032x}", f"{span.parent.span_id:016x}") == (TRACE, PARENT)
        assert span.kind is SpanKind.SERVER
    points = telemetry.points()
    assert points["gen_ai.server.request.duration"][0].count == len(spans)
    assert not any(name.startswith("gen_ai.client.") for name in points)


def test_a_request_without_a_trace_begins_one(http: httpx.Client, telemetry: Recorded) -> None:
    for _ in range(2):
        http.post("/v1/chat/completions", json={"messages": HELLO, "max_tokens": 1})
    first, second = telemetry.spans()
    assert first.parent is second.parent is None
    assert first.context.trace_id != second.context.trace_id
    assert first.kind is SpanKind.SERVER


def test_texts_of_apps_are_not_recorded(
    http: httpx.Client, telemetry: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(*LATEST)
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "SPAN_ONLY")
    secret = [{"role": "user", "content": "The pass word is otter."}]
    http.post("/v1/chat/completions", json={"messages": secret, "max_tokens": 2}, headers=TRACEPARENT)
    (span,) = telemetry.spans()
    assert "otter" not in span.to_json()
    assert "gen_ai.output.messages" not in attributes(span)


def test_broken_trace_headers_begin_a_trace(http: httpx.Client, telemetry: Recorded) -> None:
    for value in ("", "00-xyz", f"00-{'0' * 32}-{PARENT}-01", "x" * 4000, f"ff-{TRACE}-{PARENT}-01"):
        headers = {"traceparent": value, "tracestate": "=,=;", "baggage": "a=b=c,,;"}
        answer = http.post("/v1/chat/completions", json={"messages": HELLO, "max_tokens": 1}, headers=headers)
        assert answer.status_code == 200, json.dumps(answer.json())
    assert all(span.parent is None for span in telemetry.spans())


def test_strangers_make_no_spans(start: Callable[..., Any], telemetry: Recorded) -> None:
    server = start(tokens=Tokens([("mine", "a" * 20)]))
    answer = httpx.post(f"{server.url}/v1/chat/completions", json={"messages": HELLO}, headers=TRACEPARENT)
    assert answer.status_code == 401
    assert telemetry.spans() == []
