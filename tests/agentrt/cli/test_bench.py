import json
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from agentrt.bench.common.machine import describe_machine
from agentrt.bench.common.parts import ContextPart
from agentrt.bench.common.report import BenchReport, Table
from agentrt.cli.main import app
from agentrt.errors import ModelNotFoundError, WorkloadNotFoundError

REPORT = BenchReport(
    bench="engine",
    machine=describe_machine(),
    figures={"greedy_equal_prompts": 50, "decode_ratio": 0.987654},
    tables=(Table(title="prompts", columns=("prompt", "equal"), rows=(("hello", True), ("bye", None))),),
    method="It was measured so.",
)


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the command passes to the bench."""
    given: dict[str, Any] = {}

    def run(*, quick: bool, workloads: Path | None, progress: Callable[[str], None]) -> BenchReport:
        given.update(quick=quick, workloads=workloads)
        progress("half of it is done")
        return REPORT

    module = types.ModuleType("agentrt.bench.engine.main")
    module.run = run  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "agentrt.bench.engine.main", module)
    return given


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["engine", "--peer", "vllm=http://127.0.0.1:8000,bf16"], "bench scheduler only"),
        (["scheduler", "--peer", "vllm"], "NAME=URL,PRECISION AND THREADS"),
        (["scheduler", "--model", "nano", "--peer", "vllm=http://127.0.0.1:9,bf16"], "cannot be reached"),
    ],
)
def test_a_peer_that_cannot_be_measured_is_refused_before_the_work(
    given: dict[str, Any], arguments: list[str], problem: str
) -> None:
    result = CliRunner().invoke(app, ["bench", *arguments])
    assert result.exit_code != 0
    assert problem in result.output + str(result.exception)
    assert given == {}


def test_it_runs_the_bench_and_shows_its_figures(given: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "traces.jsonl").touch()
    result = CliRunner().invoke(app, ["bench", "engine", "--quick", "--workloads", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert given == {"quick": True, "workloads": tmp_path}
    assert result.stderr == "half of it is done\n"
    assert "greedy_equal_prompts" in result.stdout
    assert "0.9877" in result.stdout
    assert "It was measured so." in result.stdout


def test_it_writes_the_report(given: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    assert CliRunner().invoke(app, ["bench", "engine", "--json", str(file)]).exit_code == 0
    assert given == {"quick": False, "workloads": None}
    assert json.loads(file.read_text()) == json.loads(REPORT.to_json())


def test_a_report_that_cannot_be_written_is_refused_before_the_work(
    given: dict[str, Any], tmp_path: Path
) -> None:
    result = CliRunner().invoke(app, ["bench", "engine", "--json", str(tmp_path / "nowhere" / "report.json")])
    assert result.exit_code == 2
    assert "there is no folder" in result.output
    assert given == {}


def test_a_folder_without_workloads_is_refused_before_the_work(given: dict[str, Any], tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["bench", "engine", "--workloads", str(tmp_path)])
    assert isinstance(result.exception, WorkloadNotFoundError)
    assert given == {}
    result = CliRunner().invoke(
        app, ["bench", "engine", "--workloads", str(tmp_path / "nowhere")], env={"COLUMNS": "200"}
    )
    assert (result.exit_code, given) == (2, {})
    assert "does not exist" in result.output


def test_a_model_is_passed_to_the_bench(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []

    def run(*, model: str | None = None, **options: Any) -> BenchReport:
        given.append(model)
        return REPORT

    for name in ("engine", "scheduler", "context"):
        module = types.ModuleType(f"agentrt.bench.{name}.main")
        module.run = run  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, module.__name__, module)
        result = CliRunner().invoke(app, ["bench", name, "--model", "some.gguf"])
        assert result.exit_code == 0, result.output
    assert given == ["some.gguf"] * 3


def test_parts_are_passed_to_the_bench(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []

    def run(*, parts: Any, **options: Any) -> BenchReport:
        given.extend(parts)
        return REPORT

    module = types.ModuleType("agentrt.bench.context.main")
    module.run = run  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    result = CliRunner().invoke(app, ["bench", "context", "--part", "restarts", "--part", "storage"])
    assert result.exit_code == 0, result.output
    assert given == [ContextPart.RESTARTS, ContextPart.STORAGE]
    for bench, known in (("context", "compression"), ("attack", "soak"), ("speculation", "guards")):
        result = CliRunner().invoke(app, ["bench", bench, "--part", "nothing"])
        assert result.exit_code == 2
        assert known in result.output


@pytest.mark.parametrize("option", ["--seed", "--seeds", "--draft"])
def test_options_of_other_benches_are_refused(given: dict[str, Any], option: str) -> None:
    result = CliRunner().invoke(app, ["bench", "engine", option, "3"])
    assert result.exit_code == 2
    assert option in result.output
    assert given == {}


def test_models_have_no_parts() -> None:
    models = ["--model", "nano", "--draft", "nano-draft"]
    result = CliRunner().invoke(app, ["bench", "speculation", *models, "--part", "guards"])
    assert result.exit_code == 2
    assert "--part" in result.output


@pytest.mark.parametrize("option", ["--model", "--draft"])
def test_a_main_model_needs_a_draft_model(option: str) -> None:
    result = CliRunner().invoke(app, ["bench", "speculation", option, "nano"])
    assert result.exit_code == 2
    assert "--model and --draft" in result.output


@pytest.mark.parametrize(
    "missing", [["--model", "none.gguf", "--draft", "nano"], ["--model", "nano", "--draft", "none.gguf"]]
)
def test_a_model_that_does_not_exist_is_refused(missing: list[str]) -> None:
    result = CliRunner().invoke(app, ["bench", "speculation", *missing])
    assert isinstance(result.exception, ModelNotFoundError)
    assert "none.gguf" in str(result.exception)


def test_an_unknown_bench_is_a_usage_error_that_names_the_known_ones() -> None:
    result = CliRunner().invoke(app, ["bench", "nonsense"])
    assert result.exit_code == 2
    assert "engine" in result.output
    assert "speculation" in result.output
