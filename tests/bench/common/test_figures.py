"""The command that draws a report says what is wrong with its arguments."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentrt.bench.common import figures
from agentrt.bench.common.machine import describe_machine
from agentrt.bench.common.report import BenchReport


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "required: report, folder"),
        (["no-such.json", "."], "No such file"),
        (["{folder}/engine.json", "."], "no figures"),
    ],
)
def test_what_cannot_be_drawn_is_a_usage_error(
    arguments: list[str], problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = BenchReport(bench="engine", machine=describe_machine(), figures={}, method="")
    report.write(tmp_path / "engine.json")
    with pytest.raises(SystemExit, match="2"):
        figures.main([each.format(folder=tmp_path) for each in arguments])
    assert problem in capsys.readouterr().err
