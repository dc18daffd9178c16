"""Fixtures that record what OpenTelemetry would export."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from agentrt.otel import metrics as own_metrics
from tests.runtime.serving.http.serving import until

LATEST = ("OTEL_SEMCONV_STABILITY_OPT_IN", "http,gen_ai_latest_experimental")


class Recorded:
    """The spans and metrics of one test."""

    def __init__(self, exporter: InMemorySpanExporter, reader: InMemoryMetricReader) -> None:
        self._exporter = exporter
        self._reader = reader

    def spans(self, prefix: str = "") -> list[ReadableSpan]:
        return [span for span in self._exporter.get_finished_spans() if span.name.startswith(prefix)]

    def wait_for(self, prefix: str, number: int) -> list[ReadableSpan]:
        """Return the spans whose names begin so; that of a request ends just after its answer."""
        until(lambda: len(self.spans(prefix)) >= number)
        found = self.spans(prefix)
        assert len(found) == number
        return found

    def points(self) -> dict[str, list[Any]]:
        """Return the data points of each metric."""
        data = self._reader.get_metrics_data()
        scopes = [scope for each in data.resource_metrics for scope in each.scope_metrics] if data else []
        return {metric.name: list(metric.data.data_points) for scope in scopes for metric in scope.metrics}


@pytest.fixture
def telemetry(monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorded]:
    exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
    tracers, meters = TracerProvider(), MeterProvider([reader])
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer", tracers.get_tracer)
    monkeypatch.setattr(metrics, "get_meter", meters.get_meter)
    own_metrics._of_version.cache_clear()
    yield Recorded(exporter, reader)
    own_metrics._of_version.cache_clear()
    meters.shutdown()


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})
