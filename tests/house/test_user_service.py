"""`deploy/agentrt.service` in the service manager of the user who runs the tests."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.external_commands import require
from tests.house.project import ROOT
from tests.house.test_deploy import UNIT

NAME = f"agentrt-test-{os.getpid()}"
ENVIRONMENT = {**os.environ, "XDG_RUNTIME_DIR": os.environ.get("XDG_RUNTIME_DIR", f"/run/user/{os.getuid()}")}

pytestmark = [pytest.mark.check, pytest.mark.slow]


def run(*command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**ENVIRONMENT, **variables}
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=100, check=False)


def has_a_manager() -> bool:
    require("systemctl")
    return run("systemctl", "--user", "is-system-running").stdout.strip() in ("running", "degraded")


def unit(command: str, *settings: str) -> str:
    """Return the unit with another command and further settings."""
    started, found = re.subn(r"^ExecStart=.*$", f"ExecStart={command}", UNIT, flags=re.MULTILINE)
    assert found == 1
    return started.replace("\n[Install]", "".join(f"{line}\n" for line in settings) + "\n[Install]")


@pytest.mark.needs("systemd-analyze")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    file = tmp_path / "agentrt.service"
    file.write_text(unit(f"{sys.executable} -m agentrt serve"), encoding="utf-8")

    done = run("systemd-analyze", "verify", "--user", "--man=no", str(file), XDG_RUNTIME_DIR=str(tmp_path))

    assert done.returncode == 0, done.stderr
    assert file.name not in done.stderr


@pytest.fixture
def settings() -> Iterator[Path]:
    """The config file of a service that is there for one test."""
    if not has_a_manager():
        pytest.skip("no service manager of this user runs here (systemctl --user)")
    file = Path(ENVIRONMENT["XDG_RUNTIME_DIR"]) / "systemd" / "user" / f"{NAME}.service"
    file.parent.mkdir(parents=True, exist_ok=True)
    folder, cache = Path.home() / f".{NAME}", Path.home() / ".cache" / "agentrt" / NAME
    (folder / "agentrt").mkdir(parents=True, mode=0o700)
    variables = f"XDG_CONFIG_HOME={folder} XDG_CACHE_HOME={cache}"
    file.write_text(
        unit(f"{sys.executable} -m agentrt serve", f"WorkingDirectory={ROOT}", f"Environment={variables}"),
        encoding="utf-8",
    )
    try:
        assert run("systemctl", "--user", "daemon-reload").returncode == 0
        yield folder / "agentrt" / "config.toml"
    finally:
        run("systemctl", "--user", "stop", NAME)
        run("systemctl", "--user", "reset-failed", NAME)
        file.unlink()
        run("systemctl", "--user", "daemon-reload")
        shutil.rmtree(folder)
        shutil.rmtree(cache, ignore_errors=True)


def start(settings: Path, text: str) -> None:
    settings.write_text(f"[serve]\n{text}\n", encoding="utf-8")
    assert run("systemctl", "--user", "start", NAME).returncode == 0


def ended() -> dict[str, str]:
    """Wait until the service has ended; return what is known of it."""
    names = ("SubState", "ExecMainStatus", "NRestarts")
    deadline = time.monotonic() + 60
    while True:
        shown = run("systemctl", "--user", "show", NAME, *(f"--property={name}" for name in names))
        found = dict(line.split("=", 1) for line in shown.stdout.splitlines())
        if found["SubState"] in ("dead", "failed", "auto-restart") or time.monotonic() > deadline:
            return found
        time.sleep(0.5)


def health(port: int) -> int:
    """Wait until the server has opened its model and answers; return the status of its health."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return httpx.get(f"http://127.0.0.1:{port}/health", timeout=60).status_code
        except httpx.ConnectError:
            assert time.monotonic() < deadline, run("journalctl", "--user", "--unit", NAME).stdout
            time.sleep(0.5)


def test_it_serves_and_stops(settings: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    start(settings, f"port = {port}\nno-auth = true")

    assert health(port) == 200

    run("systemctl", "--user", "stop", NAME)
    assert ended() == {"SubState": "dead", "ExecMainStatus": "0", "NRestarts": "0"}


def test_it_cannot_write_the_users_other_files(settings: Path) -> None:
    contexts = settings.parent / "contexts"
    start(settings, f'context-folder = "{contexts}"')

    assert ended() == {"SubState": "failed", "ExecMainStatus": "2", "NRestarts": "0"}
    assert not contexts.exists()


def test_an_error_that_it_reports_is_not_tried_again(settings: Path) -> None:
    start(settings, "prot = 8000")

    assert ended() == {"SubState": "failed", "ExecMainStatus": "2", "NRestarts": "0"}
