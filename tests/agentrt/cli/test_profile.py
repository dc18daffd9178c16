"""``agentrt profile``, and what commands print where there is no terminal, such as to a program or a file."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from agentrt.bench.simulation.rooflines import simulated_profile
from agentrt.cli import doctor
from agentrt.cli.main import app
from agentrt.cli.output import output_console
from agentrt.errors import ConfigurationError
from agentrt.runtime.heg.profile import Profile
from agentrt.runtime.xpu.kernel_bench import KernelBench

pytestmark = pytest.mark.real_model


@pytest.fixture(autouse=True)
def _cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("platformdirs.user_cache_path", lambda name: tmp_path / name)


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["profile", *arguments], catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def test_a_model_is_measured_and_its_profile_is_kept(tmp_path: Path) -> None:
    output = run("nano", "--platform", "cpu", "--json", str(tmp_path / "profile.json"))
    assert "6 layers in" in output
    assert "measured on this machine" in output
    written = Profile.model_validate_json((tmp_path / "profile.json").read_bytes())
    assert written.measured
    (kept,) = (tmp_path / "agentrt" / "profiles").glob("[!m]*.json")
    assert Profile.model_validate_json(kept.read_bytes()) == written


def test_a_file_that_cannot_be_written_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError("read-only")

    monkeypatch.setattr(Path, "write_text", refuse)
    arguments = ["profile", "--platform", "simulated:core-ultra-5-125h", "--json", str(tmp_path / "x")]
    with pytest.raises(ConfigurationError, match=r"cannot write .*read-only"):
        CliRunner().invoke(app, arguments, catch_exceptions=False)


@pytest.mark.check
def test_it_is_measured_again_unless_the_stored_one_is_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("nano", "--platform", "cpu")
    (kept,) = (tmp_path / "agentrt" / "profiles").glob("[!m]*.json")
    before = kept.read_bytes()
    monkeypatch.setattr(KernelBench, "reshape_s", lambda *_, **__: 1.0)
    run("nano", "--platform", "cpu", "--stored")
    assert kept.read_bytes() == before
    run("nano", "--platform", "cpu")
    assert kept.read_bytes() != before


def test_a_simulated_machine_is_shown_as_simulated(tmp_path: Path) -> None:
    output = run("--platform", "simulated:core-ultra-5-125h", "--json", str(tmp_path / "profile.json"))
    assert "NPU" in output
    assert "not measured" in " ".join(output.split())
    written = Profile.model_validate_json((tmp_path / "profile.json").read_bytes())
    assert written == simulated_profile("core-ultra-5-125h")
    refused = CliRunner().invoke(app, ["profile", "nano", "--platform", "simulated:core-ultra-5-125h"])
    assert refused.exit_code == 2
    assert "has a model of its own" in " ".join(refused.output.split())


def printed(*command: str) -> list[str]:
    result = CliRunner().invoke(app, command, env={"COLUMNS": "30"})
    assert result.exit_code == 0
    return result.stdout.splitlines()


def test_a_line_is_neither_cut_nor_wrapped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    output_console().print("word " * 100)
    assert capsys.readouterr().out == "word " * 100 + "\n"


def test_doctor_has_a_line_for_each_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    found = "a processor with a name of many words " * 9
    monkeypatch.setattr(doctor, "examine", lambda: iter([doctor.Finding("processor", found)]))
    assert found.strip() in printed("doctor")[0]


def test_the_tables_of_profile_are_whole() -> None:
    lines = printed("profile", "--platform", "simulated:core-ultra-5-125h")
    assert not [line for line in lines if "…" in line]
    assert [line for line in lines if "compiled segments" in line and line.endswith(" not measured.")]
