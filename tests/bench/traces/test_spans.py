"""Which spans of a script are linked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.house.project import ROOT


@dataclass(frozen=True)
class Span:
    """What links a span."""

    id: str
    parent: str | None
    links: tuple[str, ...] = ()
    outcome: str | None = None
    """Its attribute ``agentrt.speculation``."""
    trace: str = "t"
    scope: str = "agentrt"
    name: str = ""


def span(id: str, parent: str | None, *links: str, outcome: str | None = None, trace: str = "t") -> Span:
    return Span(id, parent, links, outcome, trace)


def unlinked(spans: Sequence[Span]) -> list[str]:
    """Return the ids of agentrt's spans that are not linked to the others of one script.

    Each is to be in the trace of the script's own span and below a span of it. A call that claimed a
    speculative run, and that run, are also to have links to each other.
    """
    known = {each.id: each for each in spans}
    traces = {each.trace for each in spans if each.parent is None and each.scope != "agentrt"}

    def is_linked(one: Span) -> bool:
        below = one.trace in traces and one.parent in known
        others = [known[id] for id in one.links if id in known]
        claimed = any(one.id in other.links and other.outcome == "claimed" for other in others)
        return below and (one.outcome != "claimed" or claimed)

    return [each.id for each in spans if each.scope == "agentrt" and not is_linked(each)]


SCRIPT = [Span("script", None, scope="script"), span("turn", "script"), span("chat", "script")]
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
def test_others_are_not(others: list[Span], apart: list[str]) -> None:
    assert unlinked([*SCRIPT, *others]) == apart


@pytest.mark.bench
@pytest.mark.parametrize("script", ["travel_planner", "openai_agents_sdk", "cluster_gateway", "mcp_client"])
def test_the_spans_of_a_script_are_linked(script: str, tmp_path: Path) -> None:
    file = tmp_path / "spans.json"
    command = [sys.executable, "-m", "tests.bench.traces.recorded_script", script, str(file)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    spans = [Span(**each) for each in json.loads(file.read_text(encoding="utf-8"))]
    used = {"claimed", "answered"}  # the gateway answers a call in its stream
    assert any(each.outcome in used for each in spans if each.scope == "agentrt")
    assert unlinked(spans) == []
