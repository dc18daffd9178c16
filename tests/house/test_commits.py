"""The hooks of git check what the Makefile and CONTRIBUTING.md say."""

from pathlib import Path

import pytest
import yaml

from tests.house.project import ROOT, python

CHECK = ".ci/check_commit_message.py"


@pytest.mark.parametrize(
    ("message", "advice"),
    [
        ("Queue requests in one file\n", None),
        ("x" * 72, None),
        (f"Queue requests in one file\n\n{'The body has lines of any length. ' * 4}\n", None),
        ("Queue requests in one file\n# Please enter the commit message\n", None),
        ("Zähle 72 Zeichen, nicht Bytes: " + "ä" * 41, None),
        ("x" * 73, "The subject has 73 characters. Shorten it to 72."),
        ("", "The first line is empty."),
        ("\n\nbelow\n", "The first line is empty."),
        ("# comment\n", "The first line is empty."),
        ("Queue requests\nin one file\n", "Put an empty line below the subject."),
    ],
)
def test_a_message(message: str, advice: str | None, tmp_path: Path) -> None:
    file = tmp_path / "message"
    file.write_text(message, encoding="utf-8")
    done = python(ROOT / CHECK, file)
    assert done.returncode == (advice is not None)
    assert advice in done.stderr if advice else not done.stderr


def test_every_hook_is_local_and_runs_a_file_or_module_of_this_environment() -> None:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    hooks = [hook for repository in config["repos"] for hook in repository["hooks"]]

    assert [repository["repo"] for repository in config["repos"]] == ["local"]
    assert [hook["entry"].split()[0] for hook in hooks] == [".venv/bin/python"] * len(hooks)
    files = {part for hook in hooks for part in hook["entry"].split() if part.endswith(".py") and "/" in part}
    assert {file for file in files if not (ROOT / file).exists()} == set()
    assert CHECK in files
