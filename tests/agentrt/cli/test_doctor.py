import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agentrt.cli import doctor
from agentrt.cli.main import app
from agentrt.errors import ModelFormatError
from agentrt.runtime import LocalRuntime


@pytest.mark.slow
def test_it_reports_what_this_machine_has() -> None:
    findings = {finding.subject: finding for finding in doctor.examine()}
    assert "cores usable" in findings["processor"].found
    assert findings["memory"].found.endswith("GiB")
    assert "GB free" in findings["disk"].found
    assert "CPU" in " ".join(findings)
    assert findings["openvino"].found
    assert findings["extra langgraph"].advice == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("package", "code", "demo"),
    [("langgraph", 1, "The demo cannot run yet."), ("openai", 0, "The demo can run")],
)
def test_a_missing_package_comes_with_the_line_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, package: str, code: int, demo: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    result = CliRunner().invoke(app, ["doctor"])
    assert result.exit_code == code
    assert f"{sys.executable} -m pip install 'agentrt[{package}]'" in result.output
    assert demo in result.output


def test_without_the_runtime_nothing_of_it_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openvino", None)
    findings = {finding.subject: finding for finding in doctor.examine()}
    assert "agentrt[runtime]" in findings["extra runtime"].advice
    assert "nano model" not in findings


def test_a_broken_model_is_reported_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> LocalRuntime:
        raise ModelFormatError("the weights are cut short. Install agentrt again.")

    monkeypatch.setattr(LocalRuntime, "open", fail)
    result = CliRunner().invoke(app, ["doctor"])
    assert result.exit_code == 1
    assert "the weights are cut short. Install agentrt again." in result.output


def test_it_says_how_weights_of_gguf_files_are_multiplied(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def found() -> doctor.Finding:
        return next(each for each in doctor.examine() if each.subject == "GGUF weights")

    compiler = tmp_path / "g++"
    compiler.write_text("")
    compiler.chmod(0o755)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("CXX", str(compiler))
    assert (
        found().found
        == f"multiplied as they are, to be compiled by {compiler} when a GGUF file is first opened"
    )
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert "apt-get install g++" in found().advice
