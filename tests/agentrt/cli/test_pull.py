from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.file_proxy import FileProxy
from typer.testing import CliRunner

from agentrt.cli.main import app
from agentrt.errors import ModelDownloadError


@pytest.fixture
def download(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[..., Path]], None]:
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal
    return lambda instead: monkeypatch.setattr("agentrt.runtime.model.hub.pull.pull_model", instead)


def test_bars_of_the_hubs_library_are_drawn_on_the_terminal_itself(download: Any) -> None:
    """They redraw one line, of which a live display of rich's would make a line for each step."""
    seen = []

    def pull_model(name: str, *, progress: Any, say: Any, **options: Any) -> Path:
        say("asking https://[hub] for it")
        seen.append(isinstance(sys.stderr, FileProxy))
        progress(1, 2)
        seen.append(isinstance(sys.stderr, FileProxy))
        return Path("/models/x.gguf")

    download(pull_model)
    result = CliRunner().invoke(app, ["pull", "o/n:q4"])
    assert seen == [False, True], "only the bar of an address is rich's"
    assert result.exit_code == 0
    assert result.stdout == "/models/x.gguf\nTry it: agentrt chat --model o/n:q4\n"
    assert result.stderr.startswith("asking https://[hub] for it\n")


def test_an_error_ends_the_bar_and_is_raised(download: Any) -> None:
    def pull_model(name: str, *, progress: Any, **options: Any) -> Path:
        progress(1, 2)
        raise ModelDownloadError("it broke off")

    download(pull_model)
    with pytest.raises(ModelDownloadError, match="it broke off"):
        CliRunner().invoke(app, ["pull", "o/n:q4"], catch_exceptions=False)
    assert not isinstance(sys.stderr, FileProxy)
