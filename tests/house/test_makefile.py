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


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name in ("Makefile", "pyproject.toml", "setup.py", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def interpreter(path: Path, script: str) -> str:
    """Write a program at ``path`` in place of a Python interpreter, and return its path."""
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def make(checkout: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    # The suite may itself run under make, whose settings must not be inherited.
    own = {
        name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS", "PYTHON"))
    }
    return subprocess.run(
        ["make", *arguments], cwd=checkout, env=own, capture_output=True, text=True, check=False
    )


def test_a_python_that_is_too_old(checkout: Path) -> None:
    old = interpreter(checkout / "old", '[ "$1" = --version ] && echo Python 3.9.2 || exit 1')

    done = make(checkout, "demo", f"PYTHON={old}")

    assert done.returncode != 0
    assert f"needs Python 3.11 or newer, and {old} is Python 3.9.2." in done.stderr
    assert "make demo PYTHON=python3.12" in done.stderr
    assert not (checkout / ".venv").exists()


def test_a_python_that_is_not_there(checkout: Path) -> None:
    done = make(checkout, "test", "PYTHON=no-such-python")

    assert done.returncode != 0
    assert "no-such-python was not found" in done.stderr


def test_a_python_without_venv(checkout: Path) -> None:
    bare = interpreter(
        checkout / "bare", f'case "$2" in *ensurepip*) exit 1;; *) exec {sys.executable} "$@";; esac'
    )

    done = make(checkout, "demo", f"PYTHON={bare}")

    assert done.returncode != 0
    assert "sudo apt install python3-venv" in done.stderr


def test_a_second_call_installs_nothing(checkout: Path) -> None:
    python = checkout / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    interpreter(python, 'echo "$@" >> calls')

    assert make(checkout, "demo").returncode == 0
    assert "pip install" in (checkout / "calls").read_text(encoding="utf-8")
    (checkout / "calls").unlink()
    assert make(checkout, "demo").returncode == 0
    assert (checkout / "calls").read_text(encoding="utf-8") == "-m agentrt demo\n"


@pytest.mark.parametrize("changed", ["pyproject.toml", "setup.py", "constraints.txt"])
def test_changed_requirements_are_installed(checkout: Path, changed: str) -> None:
    python = checkout / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    interpreter(python, 'echo "$@" >> calls')
    make(checkout, "demo")
    (checkout / "calls").unlink()

    os.utime(checkout / changed, (2**31, 2**31))
    make(checkout, "demo")

    assert "pip install" in (checkout / "calls").read_text(encoding="utf-8")


def test_a_failed_installation_is_tried_again(checkout: Path) -> None:
    python = checkout / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    interpreter(python, 'case "$*" in *install*) exit 1;; esac')

    assert make(checkout, "demo").returncode != 0
    interpreter(python, 'echo "$@" >> calls')
    assert make(checkout, "demo").returncode == 0

    assert "pip install" in (checkout / "calls").read_text(encoding="utf-8")


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
        ("figures", ["bench", "redis", "browser"]),
    ],
)
def test_each_command_installs_what_it_needs(checkout: Path, command: str, extras: list[str]) -> None:
    python = checkout / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    interpreter(python, 'echo "$@" >> calls')

    assert make(checkout, command).returncode == 0

    calls = (checkout / "calls").read_text(encoding="utf-8")
    assert re.findall(r"pip install .*--editable \.\[([\w-]+)\]", calls) == extras


def test_help_lists_every_command(checkout: Path) -> None:
    (phony,) = re.findall(r"^\.PHONY: (.*)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)

    listed = re.findall(r"^make ([\w-]+) ", make(checkout, "help").stdout, re.MULTILINE)

    assert sorted(listed) == sorted({*phony.split()} - {"help"})
