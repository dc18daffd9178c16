"""What commands print where there is no terminal, such as to a program or a file."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from agentrt.cli import doctor
from agentrt.cli.main import app
from agentrt.cli.output import output_console


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
