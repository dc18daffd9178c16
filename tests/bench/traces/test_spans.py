"""Which spans of a script are linked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench.traces.spans import SpanRecord, of_agentrt, unlinked
from tests.house.project import ROOT


def span(
    id: str, parent: str | None, *links: str, outcome: str | None = None, trace: str = "t", own: bool = True
) -> SpanRecord:
    return SpanRecord(
        name=id,
        scope="agentrt" if own else "script",
        trace_id=trace,
        span_id=id,
        parent_id=parent,
        links=links,
        outcome=outcome,
    )


SCRIPT = [span("script", None, own=False), span("turn", "script"), span("chat", "script")]
CALL, RUN = span("call", "script", "run", outcome="claimed"), span("run", "turn", "call", outcome="claimed")


def test_calls_and_runs_that_name_each_other_are_linked() -> None:
    wasted, missed = span("wasted", "turn", outcome="wasted"), span("missed", "script", outcome="missed")
    assert unlinked([*SCRIPT, CALL, RUN, wasted, missed]) == []


@pytest.mark.parametrize(
    ("others", "apart"),
    [
        ([span("lost", "nobody")], ["lost"]),
        ([span("root", None)], ["root"]),
        ([span("far", "turn", trace="u")], ["far"]),
        ([CALL], ["call"]),
        ([CALL, span("run", "turn", outcome="claimed")], ["call", "run"]),
        ([span("call", "script", outcome="claimed"), RUN], ["call", "run"]),
    ],
)
def test_others_are_not(others: list[SpanRecord], apart: list[str]) -> None:
    assert [each.name for each in unlinked([*SCRIPT, *others])] == apart


@pytest.mark.bench
@pytest.mark.parametrize("script", ["travel_planner", "openai_agents_sdk", "cluster_gateway", "mcp_client"])
def test_the_spans_of_a_script_are_linked(script: str, tmp_path: Path) -> None:
    file = tmp_path / "spans.json"
    command = [sys.executable, "-m", "tests.bench.traces.recorded_script", script, str(file)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    spans = [SpanRecord.model_validate(each) for each in json.loads(file.read_text(encoding="utf-8"))]
    used = {"claimed", "answered"}  # the gateway answers a call in its stream
    assert any(each.outcome in used for each in of_agentrt(spans))
    assert unlinked(spans) == []
