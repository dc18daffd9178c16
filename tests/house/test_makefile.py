"""`make` refuses an unusable Python with advice, and installs only what changed."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.project import ROOT

pytestmark = pytest.mark.needs("make")

RECORD = 'echo "$@" >> calls'


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name in ("Makefile", "pyproject.toml", "setup.py", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


@pytest.fixture
def python(checkout: Path) -> Path:
    """What stands for the environment's Python, and writes down what it is called with."""
    path = checkout / ".venv" / "bin" / "python"
    path.parent.mkdir(parents=True)
    interpreter(path, RECORD)
    return path


def calls(checkout: Path) -> str:
    """Return what has been called since the last time."""
    file = checkout / "calls"
    text = file.read_text(encoding="utf-8")
    file.unlink()
    return text


def interpreter(path: Path, script: str) -> None:
    """Write a program at ``path`` in place of a Python interpreter."""
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)


def make(checkout: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    # The suite may itself run under make, whose settings must not be inherited.
    own = {
        name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS", "PYTHON"))
    }
    return subprocess.run(
        ["make", *arguments], cwd=checkout, env=own, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("script", "advice"),
    [
        (
            '[ "$1" = --version ] && echo Python 3.9.2 || exit 1',
            ["needs Python 3.11 or newer, and ./other is Python 3.9.2.", "make demo PYTHON=python3.12"],
        ),
        (None, ["./other was not found"]),
        (
            f'case "$2" in *ensurepip*) exit 1;; *) exec {sys.executable} "$@";; esac',
            ["sudo apt install python3-venv"],
        ),
    ],
    ids=["too old", "not there", "without venv"],
)
def test_a_python_that_cannot_be_used(checkout: Path, script: str | None, advice: list[str]) -> None:
    if script is not None:
        interpreter(checkout / "other", script)
    done = make(checkout, "demo", "PYTHON=./other")
    assert done.returncode != 0
    assert [each for each in advice if each not in done.stderr] == []
    assert not (checkout / ".venv" / "bin").exists()


@pytest.mark.usefixtures("python")
def test_a_second_call_installs_only_what_changed(checkout: Path) -> None:
    assert make(checkout, "demo").returncode == 0
    assert "pip install" in calls(checkout)
    assert make(checkout, "demo").returncode == 0
    assert calls(checkout) == "-m agentrt demo\n"
    for changed in ("pyproject.toml", "setup.py", "constraints.txt"):
        os.utime(checkout / changed, (2**31, 2**31))
        assert make(checkout, "demo").returncode == 0
        assert "pip install" in calls(checkout)
        os.utime(checkout / changed, (0, 0))


def test_a_failed_installation_is_tried_again(checkout: Path, python: Path) -> None:
    interpreter(python, 'case "$*" in *install*) exit 1;; esac')
    assert make(checkout, "demo").returncode != 0
    interpreter(python, RECORD)
    assert make(checkout, "demo").returncode == 0
    assert "pip install" in calls(checkout)


@pytest.mark.usefixtures("python")
@pytest.mark.parametrize(
    ("command", "extras"),
    [
        ("demo", ["demo"]),
        ("lint", ["dev"]),
        ("types", ["dev"]),
        ("tests", ["dev"]),
        ("quick", ["dev"]),
        ("test", ["dev"]),
        ("check", ["dev", "types", "docs"]),
        ("test-long", ["dev"]),
        ("attack", ["dev"]),
        ("docs", ["docs"]),
        ("bench", ["bench", "redis", "browser"]),
        ("figures", ["bench", "dev", "redis", "browser"]),
        ("pages", ["dev"]),
    ],
)
def test_each_command_installs_what_it_needs(checkout: Path, command: str, extras: list[str]) -> None:

    assert make(checkout, command).returncode == 0
    assert re.findall(r"pip install .*--editable \.\[([\w-]+)\]", calls(checkout)) == extras


def test_help_lists_every_command(checkout: Path) -> None:
    (phony,) = re.findall(r"^\.PHONY: (.*)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)

    listed = re.findall(r"^make ([\w-]+) ", make(checkout, "help").stdout, re.MULTILINE)

    assert sorted(listed) == sorted({*phony.split()} - {"help"})
