"""Shell completion and the groups of ``--help``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agentrt.cli.main import app
from agentrt.cli.options import complete_model
from agentrt.runtime.model.hub.pulled import remember_pulled

START = "import sys; sys.argv[0] = 'agentrt'; from agentrt.__main__ import main; main()"


def complete(*words: str) -> set[str]:
    """Return what bash is offered for the last of ``words``."""
    environment = {
        **os.environ,
        "_AGENTRT_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(("agentrt", *words)),
        "COMP_CWORD": str(len(words)),
    }
    command = [sys.executable, "-c", START]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert ended.stderr == ""
    return set(ended.stdout.split())


@pytest.mark.slow
def test_commands_and_options_are_completed() -> None:
    assert complete("ch") == {"chat"}
    assert complete("serve", "--con") >= {"--context-folder", "--context-key", "--contexts-per-app"}


@pytest.mark.slow
def test_models_are_completed_whatever_the_config_file_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "agentrt").mkdir()
    (tmp_path / "agentrt" / "config.toml").write_text("[serve\n")
    assert complete("serve", "--model", "na") == {"nano"}


def test_pulled_models_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platformdirs.user_cache_path", lambda name: tmp_path / name)
    (tmp_path / "model").touch()
    remember_pulled("owner/model", tmp_path / "model")
    assert complete_model("own") == ["owner/model"]
    assert complete_model("") == ["nano", "owner/model"]
    assert complete_model("./folder") == []


def test_help_is_in_groups() -> None:
    commands = CliRunner().invoke(app, ["--help"]).stdout
    positions = [commands.index(f"─ {group} ") for group in ("Try it", "Serve", "Models", "Measure")]
    assert positions == sorted(positions)
    options = CliRunner().invoke(app, ["serve", "--help"]).stdout
    for group in ("Models", "Address and access", "Contexts", "Drafts"):
        assert f"─ {group} " in options
