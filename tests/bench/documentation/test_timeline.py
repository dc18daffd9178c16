from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentrt.bench.common.estimates import Estimate
from agentrt.bench.common.machine import describe_machine
from agentrt.bench.common.report import BenchReport, Table
from agentrt.bench.documentation import timeline
from agentrt.bench.scheduler.figures import POINT_COLUMNS, RATE_COLUMNS
from agentrt.errors import InvalidRequestError


def near(value: float) -> Estimate:
    return Estimate(value=value, low=0.9 * value, high=1.1 * value, samples=3)


RATES = (("kept", "news", "ours", near(0.5)), ("kept", "news", "theirs", None))
LATENCIES = (
    ("every 10 s", "ours", 0.5, 30, near(2.0), near(2.5)),
    ("every 10 s", "ours", 1.0, 30, near(2.5), near(3.5)),
    ("every 10 s", "theirs", 0.5, 0, None, None),
)


def event(track: int, name: str, start: float) -> dict[str, Any]:
    return {"ph": "X", "tid": track, "name": name, "ts": start, "dur": 500.0, "args": {}}


TRACE = {
    "traceEvents": [
        {"ph": "M", "tid": 1, "args": {"name": "prefill"}},
        {"ph": "M", "tid": 2, "args": {"name": "decode"}},
        event(1, "proactive prefill #0", 0),
        event(2, "reactive decode #1, #2", 100),
    ]
}


@pytest.mark.parametrize("ending", ["svg", "png"])
def test_a_trace_becomes_a_picture(tmp_path: Path, ending: str) -> None:
    source, picture = tmp_path / "trace.json", tmp_path / f"picture.{ending}"
    source.write_text(json.dumps(TRACE))
    timeline.main([str(source), str(picture)])
    content = picture.read_bytes()
    assert content.startswith(b"<?xml" if ending == "svg" else b"\x89PNG")
    if ending == "svg":
        for label in (b"proactive prefill", b"reactive decode"):
            assert label in content
        timeline.draw_trace(TRACE, tmp_path / "again.svg")
        assert (tmp_path / "again.svg").read_bytes() == content, "the same trace, the same file"


@pytest.mark.parametrize(
    ("mark", "drawn_as"), [("interrupted", "fill: none; stroke: #2c5f8a"), ("promoted", "<pattern")]
)
def test_marked_kernels_are_drawn_in_another_way(tmp_path: Path, mark: str, drawn_as: str) -> None:
    plain, marked = tmp_path / "plain.svg", tmp_path / "marked.svg"
    timeline.draw_trace(TRACE, plain)
    kernel = event(1, "proactive prefill #0", 600) | {"args": {mark: True}}
    timeline.draw_trace({"traceEvents": [*TRACE["traceEvents"], kernel]}, marked)
    assert f"proactive prefill, {mark}" in marked.read_text()
    assert drawn_as in marked.read_text()
    assert drawn_as not in plain.read_text()


def report(*tables: Table) -> BenchReport:
    return BenchReport(bench="scheduler", machine=describe_machine(), figures={}, tables=tables, method="so")


def test_a_report_becomes_figures_6_and_7(tmp_path: Path) -> None:
    tables = [
        Table(title="Fig. 6 of it", columns=RATE_COLUMNS[:4], rows=RATES),
        Table(title="Fig. 7 of it", columns=POINT_COLUMNS[:6], rows=LATENCIES),
    ]
    source = tmp_path / "report.json"
    report(*tables).write(source)
    timeline.main([str(source), str(tmp_path)])
    for number, panel in ((6, "news"), (7, "every 10 s")):
        drawn = (tmp_path / f"agent-xpu-figure-{number}.svg").read_text()
        assert panel in drawn
        assert "ours" in drawn
    with pytest.raises(InvalidRequestError, match="agentrt bench scheduler"):
        timeline.draw_figures(report(), tmp_path)


def test_figure_4_shows_every_policy(tmp_path: Path) -> None:
    timeline.main(["figure-4", str(tmp_path)])
    drawn = sorted(file.name for file in tmp_path.iterdir())
    assert len(drawn) == 4
    for name in drawn:
        kind = "mixed" if "iteration" in name else "prefill"
        assert f"reactive {kind}" in (tmp_path / name).read_text()


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "required: source, target"),
        (["trace.json"], "required: target"),
        (["no-such-trace.json", "picture.svg"], "No such file"),
    ],
)
def test_what_cannot_be_drawn_is_a_usage_error(
    arguments: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        timeline.main(arguments)
    assert problem in capsys.readouterr().err
