import json
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from agentrt.bench.common.estimates import Estimate
from agentrt.bench.common.machine import describe_machine
from agentrt.bench.common.parts import ContextPart, SpeculationPart
from agentrt.bench.common.report import BenchReport, Table
from agentrt.cli.main import app
from agentrt.errors import AgentRTError

REPORT = BenchReport(
    bench="engine",
    machine=describe_machine(),
    figures={"greedy_equal_prompts": Estimate(value=50), "decode_ratio": Estimate(value=0.987654)},
    tables=(Table(title="prompts", columns=("prompt", "equal"), rows=(("hello", True), ("bye", None))),),
    method="It was measured so.",
)


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the command passes to a bench, which does nothing."""
    given: dict[str, Any] = {}

    def run(*, progress: Callable[[str], None], **options: Any) -> BenchReport:
        given.update(options)
        progress("half of it is done")
        return REPORT

    for name in ("context", "engine"):
        module = types.ModuleType(f"agentrt.bench.{name}.main")
        module.run = run  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, module.__name__, module)
    return given


def bench(*arguments: str) -> Result:
    result = CliRunner().invoke(app, ["bench", *arguments])
    assert result.exit_code == 0, result.output
    return result


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["engine", "--peer", "http://127.0.0.1:8000"], "bench scheduler only"),
        (["scheduler", "--model", "nano", "--peer", "h:1"], "is not the address of a server"),
        (["scheduler", "--model", "nano", "--peer", "http://127.0.0.1:9"], "cannot be reached"),
        (["engine", "--model", "nano", "--model", "other.gguf"], "benches context and models only"),
        (["engine", "--json", "FOLDER/nowhere/report.json"], "there is no folder"),
        (["engine", "--workloads", "FOLDER"], "holds no *.jsonl file"),
        (["engine", "--workloads", "FOLDER/nowhere"], "does not exist"),
        *((["engine", option, "3"], option) for option in ("--seed", "--seeds", "--draft")),
        (["speculation", "--model", "nano", "--draft", "nano-draft", "--part", "overhead"], "--part"),
        (["speculation", "--part", "samples"], "--model"),
        *((["speculation", option, "nano"], "--model and --draft") for option in ("--model", "--draft")),
        (["speculation", "--model", "none.gguf", "--draft", "nano"], "none.gguf"),
        (["speculation", "--model", "nano", "--draft", "none.gguf"], "none.gguf"),
        (["context", "--part", "nothing"], "compression"),
        (["speculation", "--part", "nothing"], "overhead"),
        (["nonsense"], "speculation"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_the_work(
    given: dict[str, Any], tmp_path: Path, arguments: list[str], problem: str
) -> None:
    said = [argument.replace("FOLDER", str(tmp_path)) for argument in arguments]
    result = CliRunner().invoke(app, ["bench", *said], env={"COLUMNS": "500"})
    assert result.exit_code == (1 if isinstance(result.exception, AgentRTError) else 2)
    assert problem in result.output + str(result.exception)
    assert given == {}


def test_it_runs_the_bench_and_shows_its_figures(given: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "traces.jsonl").touch()
    file = tmp_path / "report.json"
    result = bench("engine", "--quick", "--workloads", str(tmp_path), "--json", str(file))
    assert given == {"quick": True, "workloads": tmp_path}
    assert result.stderr == "half of it is done\n"
    for shown in ("greedy_equal_prompts", "0.9877", "It was measured so."):
        assert shown in result.stdout
    assert json.loads(file.read_text()) == json.loads(REPORT.to_json())


def test_models_are_passed_to_the_bench(given: dict[str, Any]) -> None:
    bench("engine", "--model", "some.gguf")
    assert given["model"] == "some.gguf"
    bench("context", "--model", "some.gguf", "--model", "other.gguf")
    assert given["models"] == ["some.gguf", "other.gguf"]


def test_parts_are_passed_to_the_bench(given: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    bench("context", "--part", "restarts", "--part", "storage")
    assert given["parts"] == [ContextPart.RESTARTS, ContextPart.STORAGE]
    monkeypatch.setitem(
        sys.modules, "agentrt.bench.speculation.main", sys.modules["agentrt.bench.engine.main"]
    )
    bench("speculation", "--model", "nano", "--draft", "nano-draft", "--part", "samples")
    assert given["parts"] == [SpeculationPart.SAMPLES]
