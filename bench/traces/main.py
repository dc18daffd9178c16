"""The bench of traces: each script of the gallery, with its spans recorded."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from ..common.machine import describe_machine
from ..common.report import BenchReport, Cell, Table
from .spans import SpanRecord, of_agentrt, unlinked

SCRIPTS: Final = (
    *("travel_planner", "cluster_gateway", "mcp_client", "rag_with_citations", "openai_agents_sdk"),
    *("pydantic_ai_agent", "code_reviewer", "mail_digest", "personal_assistant"),
)
_QUICK: Final = SCRIPTS[:3]
_TIMEOUT_S: Final = 600
_METHOD: Final = """\
Each script of the gallery is run as its page says, on nano, in a process of its own below a span of its \
own, with every span kept in memory: {scripts}. A span of agentrt is linked if it is in the script's trace, \
below a span of it, and, if it is a call that claimed a speculative run or such a run, has a link to the \
other one, which has one back. Spans of servers that scripts start are not counted."""


def run(*, quick: bool, workloads: Path | None, progress: Callable[[str], None]) -> BenchReport:
    """Record the spans of all scripts, of three if ``quick``; ``workloads`` are not used.

    Raises:
        RuntimeError: a script failed; the message has what it printed.
    """
    rows: list[tuple[Cell, ...]] = []
    for script in _QUICK if quick else SCRIPTS:
        progress(script)
        rows.append(_row(script, recorded_spans(script)))
    total, apart = sum(_count(row[1]) for row in rows), sum(_count(row[-1]) for row in rows)
    claimed = sum(_count(row[4]) for row in rows)
    columns = ("script", "spans", "generations", "turns", "claimed runs", "not linked")
    return BenchReport(
        bench="traces",
        machine=describe_machine(),
        figures={"spans_linked_fraction": 1 - apart / total, "spans": total, "claimed_runs": claimed},
        tables=(Table(title="Spans of the gallery", columns=columns, rows=tuple(rows)),),
        method=_METHOD.format(scripts=", ".join(str(row[0]) for row in rows)),
    )


def recorded_spans(script: str) -> list[SpanRecord]:
    """Return the spans of a script of the gallery.

    Raises:
        RuntimeError: the script failed; the message has what it printed.
    """
    with tempfile.TemporaryDirectory(prefix="agentrt-traces-") as folder:
        file = Path(folder, "spans.json")
        command = [sys.executable, "-m", "agentrt.bench.traces.recorded_script", script, str(file)]
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
        if done.returncode != 0:
            raise RuntimeError(f"the script {script} failed:\n{done.stdout}{done.stderr}")
        return [SpanRecord.model_validate(each) for each in json.loads(file.read_text(encoding="utf-8"))]


def _row(script: str, spans: list[SpanRecord]) -> tuple[Cell, ...]:
    own = of_agentrt(spans)
    generations = sum(span.name.startswith("chat ") for span in own)
    turns = sum(span.name == "speculate" for span in own)
    claims = sum(span.outcome == "claimed" for span in own) // 2
    return script, len(own), generations, turns, claims, len(unlinked(spans))


def _count(cell: Cell) -> int:
    assert isinstance(cell, int)
    return cell
