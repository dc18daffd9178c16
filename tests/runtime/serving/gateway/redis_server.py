"""A Redis or Valkey server of one test; tests are skipped where the system has none."""

from __future__ import annotations

import signal
import socket
import subprocess
from pathlib import Path
from typing import Any

from tests.external_commands import require
from tests.runtime.serving.http.serving import until


class RedisServer:
    """A server without persistence, on a port that it keeps when it is restarted."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = free.getsockname()[1]
        self.url = f"redis://127.0.0.1:{self._port}/0"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        options = ("--port", str(self._port), "--bind", "127.0.0.1", "--save", "", "--daemonize", "no")
        self._process = subprocess.Popen(
            [require("redis-server"), *options, "--dir", str(self._folder)], stdout=subprocess.DEVNULL
        )
        until(self._answers)

    def stop(self) -> None:
        """End it at once, with all that it holds."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def freeze(self) -> None:
        """Keep it from answering; connections stay open."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def client(self) -> Any:
        """A client of its own, for what the test looks at."""
        import redis

        return redis.Redis.from_url(self.url)

    def _answers(self) -> bool:
        import redis

        try:
            with self.client() as client:
                return bool(client.ping())
        except redis.exceptions.ConnectionError:
            return False
