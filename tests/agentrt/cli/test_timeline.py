"""`agentrt timeline` draws what reports and recordings have saved."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agentrt import SpeculationReport
from agentrt.cli.main import app
from agentrt.errors import AgentRTError, ConfigurationError, InvalidRequestError
from agentrt.reports import Recording
from agentrt.reports.recording import RecordedAnswer
from agentrt.reports.report import TurnReport


def run(*arguments: str | Path) -> str:
    result = CliRunner().invoke(app, ["timeline", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture
def report(tmp_path: Path) -> Path:
    SpeculationReport(turns=(TurnReport(turn=1, generation_s=2.0),)).save(tmp_path / "report.json")
    return tmp_path / "report.json"


def recording(*turns: RecordedAnswer) -> Recording:
    return Recording(turns=turns)


def test_a_report_is_drawn(report: Path) -> None:
    drawn = run(report)
    ET.fromstring(drawn)
    assert ">took 2.00 s, model 2.00 s, waiting for tools 0.00 s<" in drawn


def test_a_recording_is_drawn_above_a_report(report: Path, tmp_path: Path) -> None:
    turn = RecordedAnswer(messages=(), answer={"role": "assistant"}, seconds=3, started_s=1)
    recording(turn).save(tmp_path / "plain.json")
    out = tmp_path / "run.svg"
    assert run(report, "--plain", tmp_path / "plain.json", "--out", out) == ""
    drawn = out.read_text(encoding="utf-8")
    assert drawn.index("plain: took 3.00 s") < drawn.index(">speculating: took 2.00 s")


@pytest.mark.parametrize(
    "content", ["{}", "[]", "no JSON", '{"turns": 3}', '{"name": "package", "turns": [{}]}']
)
def test_another_file_is_refused(content: str, tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_text(content, encoding="utf-8")
    with pytest.raises(ConfigurationError, match="neither a report nor a recording"):
        run(other)


def test_a_recording_of_a_history_has_no_times(tmp_path: Path) -> None:
    path = tmp_path / "history.json"
    recording(RecordedAnswer(messages=(), answer={})).save(path)
    with pytest.raises(InvalidRequestError, match="Record the run while it happens"):
        run(path)


def test_a_file_that_cannot_be_written_is_explained(report: Path, tmp_path: Path) -> None:
    with pytest.raises(AgentRTError, match="Choose another --out"):
        run(report, "--out", tmp_path / "missing" / "run.svg")
