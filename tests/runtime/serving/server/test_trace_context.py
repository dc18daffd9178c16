"""Requests continue the trace of their client."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind

from agentrt.runtime.serving.http.identity import Tokens
from tests.recorded_telemetry import LATEST, Recorded, attributes, telemetry
from tests.runtime.serving.server.conftest import HELLO

__all__ = ["telemetry"]

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRACEPARENT = {"traceparent": f"00-{TRACE}-{PARENT}-01"}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("path", "body", "generations"),
    [
        ("/v1/chat/completions", {"messages": HELLO, "max_tokens": 2, "n": 2}, 2),
        ("/v1/completions", {"prompt": ["One", "Two"], "max_tokens": 2}, 2),
        ("/v1/responses", {"input": "Hello!", "max_output_tokens": 16}, 1),
        ("/api/chat", {"messages": HELLO, "model": "nano", "options": {"num_predict": 2}}, 1),
    ],
)
def test_each_generation_is_a_span_of_the_client_s_trace_and_has_the_id_that_it_sees(
    http: httpx.Client, telemetry: Recorded, path: str, body: dict[str, Any], generations: int, stream: bool
) -> None:
    answer = http.post(path, json={**body, "stream": stream}, headers=TRACEPARENT)
    assert answer.status_code == 200
    request: Any
    (request,) = telemetry.wait_for("POST", 1)
    assert (f"{request.context.trace_id:032x}", f"{request.parent.span_id:016x}") == (TRACE, PARENT)
    assert (request.name, request.kind) == (f"POST {path}", SpanKind.SERVER)
    assert attributes(request) == {
        "http.request.method": "POST",
        "http.route": path,
        "http.response.status_code": 200,
    }
    spans: list[Any] = [span for span in telemetry.spans() if span is not request]
    assert len(spans) == generations
    seen = re.search(r'"id": ?"((?:chatcmpl|cmpl|resp)[^"]+)"', answer.text)
    assert (seen is None) == (path == "/api/chat"), "Ollama's answers have none"
    if seen is not None:
        assert {attributes(span)["gen_ai.response.id"] for span in spans} == {seen[1]}
    for span in spans:
        assert span.context.trace_id == request.context.trace_id
        assert (span.parent.span_id, span.kind) == (request.context.span_id, SpanKind.INTERNAL)
        assert span.end_time <= request.end_time
    points = telemetry.points()
    assert points["gen_ai.server.request.duration"][0].count == len(spans)
    assert not any(name.startswith("gen_ai.client.") for name in points)


def test_texts_of_apps_are_not_recorded(
    http: httpx.Client, telemetry: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(*LATEST)
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "SPAN_ONLY")
    body = {"messages": [{"role": "user", "content": "The pass word is otter."}], "max_tokens": 2}
    body |= {"stop": "an otter", "user": "otter", "metadata": {"a": "otter"}}
    headers = {**TRACEPARENT, "x-session-id": "otter"}
    assert http.post("/v1/chat/completions", json=body, headers=headers).status_code == 200
    (span,) = telemetry.spans("chat")
    assert "otter" not in span.to_json()
    assert "gen_ai.output.messages" not in attributes(span)


def test_a_request_without_a_trace_or_with_a_broken_one_begins_one(
    http: httpx.Client, telemetry: Recorded
) -> None:
    broken = ("", "00-xyz", f"00-{'0' * 32}-{PARENT}-01", "x" * 4000, f"ff-{TRACE}-{PARENT}-01")
    sent = [{}, *({"traceparent": each, "tracestate": "=,=;", "baggage": "a=b=c,,;"} for each in broken)]
    for headers in sent:
        answer = http.post("/v1/chat/completions", json={"messages": HELLO, "max_tokens": 1}, headers=headers)
        assert answer.status_code == 200, answer.text
    begun = telemetry.wait_for("POST", len(sent))
    assert all(span.parent is None and span.kind is SpanKind.SERVER for span in begun)
    assert len({span.context.trace_id for span in begun}) == len(sent)
    assert len(telemetry.spans()) == 2 * len(sent)


@pytest.mark.parametrize("path", ["/health", "/metrics", "/", "/v1/models"])
def test_what_is_polled_makes_no_spans(http: httpx.Client, telemetry: Recorded, path: str) -> None:
    assert http.get(path, headers=TRACEPARENT).status_code == 200
    http.get("/v1/models")
    (span,) = telemetry.wait_for("", 1 + (path == "/v1/models"))[-1:]
    assert span.name == "GET /v1/models"


SECRET = "otter"
HOSTILE = {
    "baggage": ",".join(f"k{number}={SECRET}\x1b[31m" + "v" * 100 for number in range(200)),
    "traceparent": f"00-{TRACE}-{PARENT}-01-{SECRET}" + "x" * 600,
    "tracestate": ",".join(f"k{number}={SECRET}{number}" for number in range(60)),
    "user-agent": SECRET,
    "b3": f"{SECRET} 1",
}
HOSTILE_STATES = [f"a={SECRET},A={SECRET}", f"{SECRET}", f"a={SECRET},a=2", f"a={SECRET}\x1b,b=2", "=,,"]


@pytest.mark.parametrize("token", [None, "a" * 20])
def test_nothing_that_a_client_sends_is_logged_or_on_a_span(
    start: Callable[..., Any],
    telemetry: Recorded,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    token: str | None,
) -> None:
    monkeypatch.setattr(trace, "get_tracer_provider", TracerProvider)  # FastAPI observes where there is one
    server = start(tokens=Tokens([("mine", "a" * 20)]))
    caplog.set_level(logging.DEBUG, "opentelemetry")
    known = {} if token is None else {"authorization": f"Bearer {token}"}
    sent = [HOSTILE, *({**TRACEPARENT, "tracestate": state} for state in HOSTILE_STATES)]
    with httpx.Client(base_url=server.url) as client:
        for headers in sent:
            raw = {name: value.encode("latin-1") for name, value in {**headers, **known}.items()}
            for method, path in (
                ("GET", f"/v1/models?key={SECRET}"),
                ("GET", f"/v1/responses/{SECRET}"),
                ("GET", f"/{SECRET}"),
                ("GET", f"/v1/models/{SECRET}"),
                (SECRET.upper(), "/v1/models"),
            ):
                client.request(method, path, headers=raw)
    assert not [record for record in caplog.records if record.name.startswith("opentelemetry")]
    assert SECRET not in caplog.text.lower()
    spans = telemetry.wait_for("", 0 if token is None else 5 * len(sent))
    assert token is not None or spans == [], "strangers make none"
    assert not [span.to_json() for span in spans if SECRET in span.to_json().lower()]


def test_only_our_own_telemetry_observes_requests(
    start: Callable[..., Any], telemetry: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FastAPI's own takes the process's provider, and would add exporters of its own."""
    monkeypatch.setenv("FASTAPI_OTEL_AUTO_CONFIGURE", "true")
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    server = start()
    assert httpx.get(f"{server.url}/v1/models", headers=TRACEPARENT).status_code == 200
    assert [span.name for span in telemetry.wait_for("", 1)] == ["GET /v1/models"]
    assert exporter.get_finished_spans() == ()
