"""The servers of the bench."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentrt.bench.attack.server_process import ServerProcess

pytestmark = [pytest.mark.bench, pytest.mark.socket]


def test_the_users_config_file_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "agentrt").mkdir()
    (tmp_path / "agentrt" / "config.toml").write_text("no TOML")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    with ServerProcess("gateway", "--upstream", "http://127.0.0.1:9/v1") as server:
        assert server.alive()
