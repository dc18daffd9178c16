"""Every file in ``examples/`` is a script that runs from any folder."""

import subprocess
import sys
from pathlib import Path

import pytest

import agentrt.examples

SCRIPTS = sorted(
    path for path in Path(agentrt.examples.__path__[0]).resolve().glob("*.py") if path.stem != "__init__"
)

pytestmark = pytest.mark.slow


def run(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_there_are_scripts() -> None:
    assert [path.stem for path in SCRIPTS] == [
        *("cluster_gateway", "code_reviewer", "mail_digest", "mcp_client", "openai_agents_sdk"),
        *("personal_assistant", "pydantic_ai_agent", "rag_with_citations", "travel_planner"),
    ]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_each_has_help_and_takes_a_model(script: Path, tmp_path: Path) -> None:
    assert "--model" in run(tmp_path, str(script), "--help")
    assert "--model" in run(tmp_path, "-m", f"agentrt.examples.{script.stem}", "--help")


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_model_that_there_is_not_is_one_line(script: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(script), "--model", "nope"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    (line,) = done.stderr.splitlines()
    assert done.returncode == 2
    assert line.startswith(f"{script.name}: ")
    assert "nope" in line


@pytest.mark.real_model
def test_the_assistant_answers_what_it_is_given(tmp_path: Path) -> None:
    printed = run(
        tmp_path, "-m", "agentrt.examples.personal_assistant", "What is the weather in Paris and Rome?"
    )
    assert '* get_weather(city="Paris")' in printed
    assert '* get_weather(city="Rome")' in printed
    assert "9 new mails were read in the background." in printed
    assert "2 calls were answered by speculation" in printed or "not predicted" in printed
