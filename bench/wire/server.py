"""``agentrt serve`` in a process of its own that is killed and started again on the same folder."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import httpx

from agentrt.errors import BenchProcessError

from ..common.process import without_settings

_START_S: Final = 300.0
"""The first opening of a model converts and measures it."""
_LAST_LINES: Final = 20


class Server:
    """A server whose contexts and background responses are in one folder. A context manager."""

    def __init__(self, model: str, folder: Path, *options: str) -> None:
        """``options`` are further ones of ``agentrt serve``."""
        self._command = [sys.executable, "-m", "agentrt", "serve", "--model", model, "--no-auth"]
        self._command += ["--context-folder", str(folder / "contexts"), *options]
        self._log = folder / "server.log"
        self._process: subprocess.Popen[bytes] | None = None
        self.http = httpx.Client()
        """Sends requests to the server that runs now."""

    def start(self) -> None:
        """Start the process, and wait until it answers.

        Raises:
            BenchProcessError: it ended, or does not answer.
        """
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = int(listener.getsockname()[1])
        command = [*self._command, "--port", str(port)]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=subprocess.STDOUT, env=without_settings(str(self._log.parent))
            )
        self.http = httpx.Client(base_url=f"http://127.0.0.1:{port}/v1", timeout=600)
        end = time.monotonic() + _START_S
        while True:
            try:
                self.http.get("/models").raise_for_status()
            except httpx.HTTPError:
                if self._process.poll() is not None or time.monotonic() > end:
                    lines = self._log.read_text("utf-8", "replace").splitlines()[-_LAST_LINES:]
                    raise BenchProcessError(self._process.returncode, lines) from None
                time.sleep(0.02)
            else:
                return

    def kill(self) -> None:
        """End the process as ``kill -9`` does."""
        self.http.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to a request."""
        answer: dict[str, Any] = self.http.post(path, json=body).raise_for_status().json()
        return answer

    def get(self, path: str) -> dict[str, Any]:
        """Return what is at ``path``."""
        answer: dict[str, Any] = self.http.get(path).raise_for_status().json()
        return answer

    def __enter__(self) -> Self:
        """Start it."""
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Kill it."""
        self.kill()
