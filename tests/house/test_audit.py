"""What CI says about advisories and licences of the packages that agentrt needs."""

from __future__ import annotations

import json
import subprocess
from email.message import Message
from typing import Any

import pytest

from tests.house.project import ROOT, python, script

pytestmark = pytest.mark.check

AUDIT, LICENCES = ".ci/audit_pins.py", ".ci/list_licences.py"
audit_pins, list_licences = script(AUDIT), script(LICENCES)
SAFE = {"name": "a", "version": "1", "vulns": []}
UNKNOWN = {"name": "b", "skip_reason": "not found"}
BROKEN = {"name": "c", "version": "2", "vulns": [{"id": "GHSA-1", "fix_versions": ["3"]}]}


@pytest.mark.parametrize(
    ("report", "code", "said"),
    [
        ([SAFE, UNKNOWN], 0, "not audited: b"),
        ([SAFE, BROKEN], 1, "c 2: GHSA-1, mended in 3"),
        ([UNKNOWN], 0, "NO ADVISORIES WERE READ"),
        (None, 0, "NO ADVISORIES WERE READ"),
    ],
)
def test_vulnerabilities_fail_and_a_missing_service_does_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], report: Any, code: int, said: str
) -> None:
    printed = "no report" if report is None else json.dumps({"dependencies": report})
    done: Any = subprocess.CompletedProcess([], 1, stdout=printed)
    monkeypatch.setattr(audit_pins.subprocess, "run", lambda *_, **__: done)
    assert audit_pins.main("constraints.txt") == code
    assert said in "".join(capsys.readouterr())


def test_licences_of_what_is_installed_here_are_accepted() -> None:
    done = python(LICENCES, cwd=ROOT)
    assert done.returncode == 0, done.stdout
    assert "pydantic" in done.stdout


@pytest.mark.parametrize(
    ("fields", "licence"),
    [
        ([("License-Expression", "MIT"), ("License", "GPL")], "MIT"),
        ([("Classifier", "License :: OSI Approved :: BSD License")], "BSD License"),
        ([("License", "Apache 2.0\nand its text")], "Apache 2.0"),
        ([], ""),
    ],
)
def test_where_a_licence_is_named(fields: list[tuple[str, str]], licence: str) -> None:
    package = Message()
    for name, value in fields:
        package[name] = value
    assert list_licences.licence_of(package) == licence


def test_other_licences_are_refused() -> None:
    licences = {"a 1": "MIT", "b 1": "GPL-3.0-only", "c 1": ""}
    assert list_licences.refused(licences) == ["b 1", "c 1"]
