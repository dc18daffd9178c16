"""The demo on a terminal: two panes and a last line, on the real nano model."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

if sys.platform == "win32":
    pytest.skip("there is no pty", allow_module_level=True)

from tests.agentrt.cli.chat.pseudo_terminal import CTRL_C, PseudoTerminal, terminal

pytestmark = [pytest.mark.real_model, pytest.mark.slow]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Data with one note, so that there is little to do in the background."""
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "Guitar lesson.md").write_text("Practice the bridge slowly.\n")
    return folder


def lines_of(shown: PseudoTerminal) -> list[str]:
    """Return all lines that were drawn, without colours and movements of the cursor."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.output.decode()).replace("\r", "\n").split("\n")


def is_restored(shown: PseudoTerminal) -> bool:
    """Return whether the cursor was hidden and is shown again, and no other screen was opened."""
    hidden, visible = shown.output.rfind(b"\x1b[?25l"), shown.output.rfind(b"\x1b[?25h")
    return 0 <= hidden < visible and b"\x1b[?1049h" not in shown.output


@pytest.mark.parametrize(("columns", "pace"), [(120, "400"), (60, "0")])
def test_both_agents_in_two_panes_and_the_seconds_of_both(columns: int, pace: str, data: Path) -> None:
    arguments = ["demo", "--data", str(data), "--latency", "0.1", "--pace", pace]
    with terminal("-m", "agentrt", *arguments, columns=columns) as shown:
        assert shown.wait() == 0, shown.output
    lines = lines_of(shown)
    side_by_side = [line for line in lines if re.search(r"without agentrt .*─ with agentrt ", line)]
    assert bool(side_by_side) == (columns == 120)
    assert any("without agentrt" in line for line in lines)
    assert max(len(line) for line in lines if "│" in line) <= columns
    text = "\n".join(lines)
    for part in (
        "You: How warm is it in Bergen?",
        "  calls get_weather(",
        "  has its result",
        "In Bergen it is",
    ):
        assert text.count(part) >= 2, part
    assert ("replay both" in " ".join(text.split())) == (pace == "0")
    ending = r"(The|Nothing gained: the) same answers in \d+\.\d s instead of \d+\.\d s\."
    assert re.fullmatch(ending, [line for line in lines if line][-1])
    assert "Seconds per request" not in text
    assert is_restored(shown)


def test_ctrl_c_leaves_the_terminal_as_it_was_and_no_files(data: Path, tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    with terminal(
        "-m", "agentrt", "demo", "--data", str(data), environment={"TMPDIR": str(temporary)}
    ) as shown:
        shown.expect("  calls ")
        shown.type(CTRL_C)
        assert shown.wait() == 130
    assert "Traceback" not in "\n".join(lines_of(shown))
    assert is_restored(shown)
    assert list(temporary.iterdir()) == []
