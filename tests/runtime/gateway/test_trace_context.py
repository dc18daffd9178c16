"""The engine behind a gateway continues the client's trace."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager

import httpx
import pytest
from opentelemetry.trace import SpanKind, StatusCode

from agentrt.otel import api, propagation
from agentrt.otel.propagation import served
from agentrt.runtime.http import trace_context
from tests.recorded_telemetry import Recorded, attributes, telemetry
from tests.runtime.server.conftest import HELLO
from tests.runtime.server.test_trace_context import PARENT, TRACE, TRACEPARENT

__all__ = ["telemetry"]

BODY = {"messages": HELLO, "max_tokens": 2}


@pytest.mark.parametrize("stream", [False, True])
def test_the_gateway_s_request_is_between_client_and_engine(
    http: httpx.Client, telemetry: Recorded, stream: bool
) -> None:
    body = {**BODY, "stream": stream, "tools": []}
    assert http.post("/v1/chat/completions", json=body, headers=TRACEPARENT).status_code == 200
    (sent,), (generated,) = telemetry.spans("POST"), telemetry.spans("chat")
    assert sent.parent is not None
    assert generated.parent is not None
    assert {span.context.trace_id for span in (sent, generated)} == {int(TRACE, 16)}
    assert sent.parent.span_id == int(PARENT, 16)
    assert generated.parent.span_id == sent.context.span_id
    assert sent.kind is SpanKind.CLIENT
    assert attributes(sent)["http.response.status_code"] == 200


def test_an_engine_that_refuses_is_a_failed_span(http: httpx.Client, telemetry: Recorded) -> None:
    assert http.get("/v1/nothing?secret=otter", headers=TRACEPARENT).status_code == 404
    (sent,) = telemetry.spans("GET")
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

    monkeypatch.setattr(trace_context, "served", noting)
    for module in (api, propagation):
        monkeypatch.setattr(module, "installed", lambda: installed)
    assert http.post("/v1/chat/completions", json=BODY, headers=TRACEPARENT).status_code == 200
    assert seen == [TRACEPARENT["traceparent"]] * 2
