"""No file names the machine it was written on; text files end with a newline."""

import re
import subprocess
from pathlib import Path

import pytest

import agentrt
from tests.external_commands import require
from tests.house.project import ROOT

# Written so that this file does not match itself.
MACHINE = re.compile(
    "|".join(
        [
            r"(?<![\w.~$}/-])/(?:work|root|tmp|home|Users)/[\w.]",
            r"[A-Z]:\\Users\\\w",
            r"\bpypi[.]org\b",
            r"\bfiles[.]pythonhosted[.]org\b",
            r"\bregistry[.]npmjs[.]org\b",
            r"\bindex[-_]url\b",
            r"\bfind[-]links\b",
        ]
    )
)


def texts() -> list[tuple[Path, str]]:
    """Return every text file that git tracks or would add."""
    if not (ROOT / ".git").exists():
        pytest.skip("only a git checkout tells which files belong to the project")
    listed = subprocess.run(
        [require("git"), "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    found = []
    for name in listed.stdout.decode().split("\0"):
        path = ROOT / name
        if name and path.is_file() and path != Path(__file__):
            content = path.read_bytes()
            if b"\0" not in content:
                found.append((path.relative_to(ROOT), content.decode("utf-8")))
    return found


def test_no_file_names_a_machine_or_a_registry_host() -> None:
    named = [
        f"{path}:{number} {line.strip()[:120]}"
        for path, text in texts()
        for number, line in enumerate(text.splitlines(), 1)
        if MACHINE.search(line)
    ]

    assert named == []


@pytest.mark.parametrize("line", ["open('/home/ada/x')", "--index-url", 'x = "/tmp/a"', r"C:\Users\ada"])
def test_the_pattern_finds_them(line: str) -> None:
    assert MACHINE.search(line)


@pytest.mark.parametrize(
    "line", ["GET /v1/work/x", "docs/tmp/a", "$HOME/work/a", "http://127.0.0.1/home/a", "a/root/b"]
)
def test_the_pattern_leaves_other_paths_alone(line: str) -> None:
    assert not MACHINE.search(line)


def test_every_file_ends_with_a_newline_and_has_no_windows_line_ends() -> None:
    exported = ROOT / "runtime/nano/weights"
    careless = [
        str(path)
        for path, text in texts()
        if text and (not text.endswith("\n") or "\r\n" in text) and not (ROOT / path).is_relative_to(exported)
    ]

    assert careless == []


def test_the_changelog_has_the_version() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")

    assert re.search(rf"^## \[{re.escape(agentrt.__version__)}\]", changelog, re.MULTILINE)


# Event loops of other threads use these at any time: a clock that stands still makes one sleep for hours.
SHARED_CLOCK = re.compile(r"setattr\(\s*(?:\w+\.)*(?:time|asyncio),|setattr\(\s*[\"'](?:time|asyncio)\.")


def test_no_test_replaces_the_clock_of_the_whole_process() -> None:
    replaced = [str(path) for path, text in texts() if path.suffix == ".py" and SHARED_CLOCK.search(text)]

    assert replaced == []


@pytest.mark.parametrize("line", ['setattr(paced.time, "monotonic", x)', "setattr('asyncio.sleep', x)"])
def test_a_replaced_clock_is_found(line: str) -> None:
    assert SHARED_CLOCK.search(line)
