"""Machines, reports, pictures of them, and models of random weights."""

from __future__ import annotations

import json
import os
import sys
from importlib import metadata
from pathlib import Path

import pytest
from pydantic import ValidationError

from agentrt.bench.common.estimates import exact, median
from agentrt.bench.common.machine import describe_machine
from agentrt.bench.common.random_gguf import ModelShape, write_random_gguf
from agentrt.bench.common.report import BenchReport, Table
from agentrt.bench.documentation import drawings


@pytest.fixture
def report() -> BenchReport:
    table = Table(title="turns", columns=("turn", "seconds", "hit"), rows=((1, 0.25, True), (2, 0.5, None)))
    return BenchReport(
        bench="engine",
        machine=describe_machine(),
        figures={"greedy_equal_prompts": exact(50), "decode_ratio": median([1.0, 1.125])},
        tables=(table,),
        method="Interleaved runs, medians of five. Ä, 漢.",
    )


def test_the_json_has_the_public_shape(report: BenchReport) -> None:
    written = json.loads(report.to_json())

    assert list(written) == ["bench", "machine", "figures", "tables", "method"]
    assert written["figures"]["greedy_equal_prompts"] == {"value": 50, "low": 50, "high": 50, "samples": 0}
    assert written["figures"]["decode_ratio"] == {"value": 1.0625, "low": 1.0, "high": 1.125, "samples": 2}
    assert written["tables"] == [
        {"title": "turns", "columns": ["turn", "seconds", "hit"], "rows": [[1, 0.25, True], [2, 0.5, None]]}
    ]
    assert BenchReport.model_validate(written) == report


def test_a_file_is_replaced_whole_or_not_at_all(
    report: BenchReport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "engine.json"
    path.write_text("the report of last time, which is a good deal longer than nothing", encoding="utf-8")
    report.write(path)
    assert path.read_text(encoding="utf-8") == report.to_json()

    def no_space(_descriptor: int) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(OSError, match="no space"):
        report.model_copy(update={"figures": {}}).write(path)
    assert path.read_text(encoding="utf-8") == report.to_json()
    assert os.listdir(tmp_path) == ["engine.json"]


@pytest.mark.parametrize("figure", [float("nan"), float("inf"), "fast"])
def test_a_figure_is_a_finite_number(report: BenchReport, figure: object) -> None:
    with pytest.raises(ValidationError):
        BenchReport.model_validate(report.model_dump() | {"figures": {"ratio": figure}})


def test_a_row_that_does_not_fit_its_columns_is_refused() -> None:
    with pytest.raises(ValidationError, match="row 1 of table 'turns' has 1 cells for 2 columns"):
        Table(title="turns", columns=("turn", "seconds"), rows=((1, 0.5), (2,)))


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "required: report, folder"),
        (["no-such.json", "."], "No such file"),
        (["{folder}/engine.json", "."], "no figures"),
    ],
)
def test_what_cannot_be_drawn_is_a_usage_error(
    report: BenchReport,
    arguments: list[str],
    problem: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    report.write(tmp_path / "engine.json")
    with pytest.raises(SystemExit, match="2"):
        drawings.main([each.format(folder=tmp_path) for each in arguments])
    assert problem in capsys.readouterr().err


def test_every_field_says_something(monkeypatch: pytest.MonkeyPatch) -> None:
    if sys.platform != "win32":
        monkeypatch.setattr(os, "getloadavg", lambda: (1.5, 1.0, 0.5))
    machine = describe_machine()
    assert machine.cpu.strip()
    assert 1 <= machine.usable_cores <= machine.logical_cores
    assert machine.memory_bytes > 64 * 2**20
    assert machine.operating_system.strip()
    assert machine.python == f"CPython {'.'.join(map(str, sys.version_info[:3]))}"
    assert machine.openvino == metadata.version("openvino")
    assert machine.load_average == (None if sys.platform == "win32" else (1.5, 1.0, 0.5))


@pytest.mark.skipif(sys.platform != "linux", reason="core affinity is set through a Linux call")
def test_only_the_cores_this_process_may_use_are_counted() -> None:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        assert describe_machine().usable_cores == 1
    finally:
        os.sched_setaffinity(0, before)


def test_a_package_that_is_not_installed_has_no_version(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(distribution: str) -> str:
        raise metadata.PackageNotFoundError(distribution)

    monkeypatch.setattr(metadata, "version", version)
    assert describe_machine().openvino is None


def test_the_same_seed_writes_the_same_file(tmp_path: Path) -> None:
    shape = ModelShape("qwen3", 2, 64, 96, 2, 1, 400)
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        write_random_gguf(tmp_path / name, shape, seed)
    first, second, third = ((tmp_path / name).read_bytes() for name in "abc")
    assert first == second != third
    assert len(first) == len(third)


def test_the_file_is_about_a_byte_for_each_parameter(tmp_path: Path) -> None:
    shape = ModelShape("llama", 2, 256, 512, 4, 2, 2000)
    write_random_gguf(tmp_path / "model", shape)
    assert (tmp_path / "model").stat().st_size == pytest.approx(shape.parameters * 34 / 32, rel=0.05)
