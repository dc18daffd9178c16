"""The replicas of a gateway and their Redis server, as processes."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from agentrt.errors import BenchProcessError, ConfigurationError

from ..common.process import without_settings

_START_S: Final = 60.0
_LAST_LINES: Final = 20


class ListeningProcess:
    """A process that listens on a port of this machine."""

    def __init__(self, command: Sequence[str], port: int, log: Path) -> None:
        """Start ``command`` and wait until something listens on ``port``.

        Raises:
            BenchProcessError: it ended, or does not listen within a minute.
        """
        self.port = port
        with log.open("wb") as file:
            self._process = subprocess.Popen(
                command, stdout=file, stderr=subprocess.STDOUT, env=without_settings(str(log.parent))
            )
        end = time.monotonic() + _START_S
        while not _listens(port):
            if self._process.poll() is not None or time.monotonic() > end:
                self.kill()
                last = log.read_text("utf-8", "replace").splitlines()[-_LAST_LINES:]
                raise BenchProcessError(self._process.returncode, last)
            time.sleep(0.02)

    def kill(self) -> None:
        """Kill the process and wait for its end."""
        self._process.kill()
        self._process.wait()


@contextmanager
def replicas_before(upstream: str, count: int, token: str) -> Iterator[list[ListeningProcess]]:
    """Run ``count`` gateways before the engine at ``upstream`` that share outputs in a Redis server.

    ``token`` is that of their only app.

    Raises:
        ConfigurationError: this machine has neither valkey-server nor redis-server.
        BenchProcessError: a process ended before it listened.
    """
    server = shutil.which("valkey-server") or shutil.which("redis-server")
    if server is None:
        raise ConfigurationError(
            "bench gateway needs valkey-server or redis-server. Install one: apt-get install redis-server"
        )
    running: list[ListeningProcess] = []
    with TemporaryDirectory() as name:
        folder = Path(name)
        tokens = folder / "tokens"
        tokens.touch(0o600)
        tokens.write_text(f"bench {token}\n", encoding="ascii")
        redis = _free_port()
        options = ("--bind", "127.0.0.1", "--save", "", "--dir", name)
        gateway = [sys.executable, "-m", "agentrt", "gateway", "--upstream", upstream]
        gateway += ["--token-file", str(tokens), "--redis", f"redis://127.0.0.1:{redis}/0"]
        try:
            running.append(
                ListeningProcess([server, "--port", str(redis), *options], redis, folder / "redis.log")
            )
            for _ in range(count):
                port = _free_port()
                log = folder / f"gateway-{port}.log"
                running.append(ListeningProcess([*gateway, "--port", str(port)], port, log))
            yield running[1:]
        finally:
            for process in running:
                process.kill()


def new_token() -> str:
    """Return a token for an app."""
    return os.urandom(16).hex()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True
