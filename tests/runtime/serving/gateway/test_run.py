"""``agentrt gateway`` as a process."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import httpx
import pytest

from tests.conftest import Command
from tests.runtime.serving.http.serving import Running
from tests.runtime.serving.server.test_run import Service

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform == "win32", reason="signals")]


def test_it_serves_with_a_token_and_ends_on_sigterm(engine: Running) -> None:
    service = Service("--upstream", f"{engine.url}/v1", "--port", "0", command="gateway")
    try:
        url = service.wait_for("serving the engine at").rsplit(" ", 1)[1]
        token = service.wait_for("token").rsplit(" ", 1)[1]
        assert httpx.get(f"{url}/models").status_code == 401
        answer = httpx.get(f"{url}/models", headers={"authorization": f"Bearer {token}"}, timeout=60)
        assert answer.json()["data"][0]["capabilities"] == ["cache-tool-output"]
        service.process.send_signal(signal.SIGTERM)
        assert service.end() == 0, service.lines
        assert service.lines[-1] == "stopped"
    finally:
        service.process.kill()
        service.end()


def test_a_key_file_that_holds_no_key(tmp_path: Path, command: Command) -> None:
    key = tmp_path / "key"
    key.touch(0o600)
    key.write_text("two words")
    code, _, said = command("gateway", "--upstream", "http://x", "--upstream-key-file", str(key))
    assert code == 2
    assert "does not hold one key" in said.replace("\n", " ")
