import json
import os
from pathlib import Path

import pytest
from pydantic import ValidationError

from agentrt.bench.common.machine import describe_machine
from agentrt.bench.common.report import BenchReport, Table


@pytest.fixture
def report() -> BenchReport:
    table = Table(title="turns", columns=("turn", "seconds", "hit"), rows=((1, 0.25, True), (2, 0.5, None)))
    return BenchReport(
        bench="engine",
        machine=describe_machine(),
        figures={"greedy_equal_prompts": 50, "transcripts_equal": True, "decode_ratio": 1.0625},
        tables=(table,),
        method="Interleaved runs, medians of five. Ä, 漢.",
    )


def test_the_json_has_the_public_shape(report: BenchReport) -> None:
    written = json.loads(report.to_json())

    assert list(written) == ["bench", "machine", "figures", "tables", "method"]
    assert written["figures"] == {"greedy_equal_prompts": 50, "transcripts_equal": 1, "decode_ratio": 1.0625}
    assert written["tables"] == [
        {"title": "turns", "columns": ["turn", "seconds", "hit"], "rows": [[1, 0.25, True], [2, 0.5, None]]}
    ]
    assert BenchReport.model_validate(written) == report


def test_a_file_is_replaced_whole_and_nothing_is_left_beside_it(report: BenchReport, tmp_path: Path) -> None:
    path = tmp_path / "engine.json"
    path.write_text("the report of last time, which is a good deal longer than nothing", encoding="utf-8")

    report.write(path)

    assert path.read_text(encoding="utf-8") == report.to_json()
    assert os.listdir(tmp_path) == ["engine.json"]


def test_a_write_that_fails_keeps_the_old_file(
    report: BenchReport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "engine.json"
    path.write_text("old", encoding="utf-8")

    def no_space(_descriptor: int) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(OSError, match="no space"):
        report.write(path)

    assert path.read_text(encoding="utf-8") == "old"
    assert os.listdir(tmp_path) == ["engine.json"]


@pytest.mark.parametrize("figure", [float("nan"), float("inf"), "fast"])
def test_a_figure_is_a_finite_number(report: BenchReport, figure: object) -> None:
    with pytest.raises(ValidationError):
        BenchReport.model_validate(report.model_dump() | {"figures": {"ratio": figure}})


def test_a_row_that_does_not_fit_its_columns_is_refused() -> None:
    with pytest.raises(ValidationError, match="row 1 of table 'turns' has 1 cells for 2 columns"):
        Table(title="turns", columns=("turn", "seconds"), rows=((1, 0.5), (2,)))
