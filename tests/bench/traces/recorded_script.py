"""Runs a script of the gallery and records its spans: ``python -m … NAME FILE``."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan


def record(script: str, file: Path) -> None:
    """Run ``script`` below a span of its own, and write all spans that have ended to ``file``."""
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    sys.argv = [script]
    try:
        with trace.get_tracer("script").start_as_current_span(script):
            runpy.run_module(f"agentrt.examples.{script}", run_name="__main__")
    finally:
        records = [_record_of(span) for span in exporter.get_finished_spans()]
        file.write_text(json.dumps(records), encoding="utf-8")


def _record_of(span: ReadableSpan) -> dict[str, Any]:
    context, scope = span.get_span_context(), span.instrumentation_scope
    assert context is not None
    outcome = (span.attributes or {}).get("agentrt.speculation")
    return {
        "name": span.name,
        "scope": "" if scope is None else scope.name,
        "trace": f"{context.trace_id:032x}",
        "id": f"{context.span_id:016x}",
        "parent": None if span.parent is None else f"{span.parent.span_id:016x}",
        "links": [f"{link.context.span_id:016x}" for link in span.links],
        "outcome": None if outcome is None else str(outcome),
    }


if __name__ == "__main__":
    record(sys.argv[1], Path(sys.argv[2]))
