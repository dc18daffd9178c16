"""Recorded spans, and whether they are linked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import BaseModel, ConfigDict

SCOPE = "agentrt"
"""The name of agentrt's tracer."""


class SpanRecord(BaseModel):
    """What links a span; ids are hexadecimal."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    scope: str
    trace_id: str
    span_id: str
    parent_id: str | None
    links: tuple[str, ...]
    """Ids of the spans to which it has links."""
    outcome: str | None
    """Its attribute ``agentrt.speculation``."""


def unlinked(spans: Sequence[SpanRecord]) -> list[SpanRecord]:
    """Return the spans of agentrt that are not linked to the others of one script.

    Each is to be in the trace of the script's own span and below a span of it. A call that claimed a
    speculative run, and that run, are also to have links to each other.
    """
    known = {span.span_id: span for span in spans}
    roots = {span.trace_id for span in spans if span.parent_id is None and span.scope != SCOPE}
    return [span for span in of_agentrt(spans) if not _is_linked(span, known, roots)]


def of_agentrt(spans: Sequence[SpanRecord]) -> list[SpanRecord]:
    """Return the spans that agentrt has made."""
    return [span for span in spans if span.scope == SCOPE]


def _is_linked(span: SpanRecord, known: Mapping[str, SpanRecord], traces: set[str]) -> bool:
    below = span.trace_id in traces and span.parent_id in known
    if span.outcome != "claimed":
        return below
    others = [known[id] for id in span.links if id in known]
    return below and any(span.span_id in other.links and other.outcome == "claimed" for other in others)
