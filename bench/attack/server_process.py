"""``agentrt serve`` and ``agentrt gateway`` as processes: their address, tokens, log and resources."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Final, NamedTuple, Self

from agentrt.errors import BenchProcessError

from ..common.process import without_settings

_START_S: Final = 120.0
_LAST_LINES: Final = 20
_SERVING: Final = re.compile(r"^serving .* at http://127\.0\.0\.1:(\d+)/v1$", re.MULTILINE)
_FAULTS: Final = ("Traceback", "Fatal Python error", "terminate called", "panicked", "ASGI")
_APPS: Final = ("owner", "attacker", "other")


class Resources(NamedTuple):
    """What a process holds."""

    rss_mb: float
    descriptors: int
    threads: int


class ServerProcess:
    """A server with a token for each of three apps. A context manager: leaving it kills the process."""

    def __init__(self, command: str, *options: str, prefix: Sequence[str] = ()) -> None:
        """Start ``agentrt COMMAND OPTIONS`` on a free port and wait until it serves.

        ``prefix`` is a command that runs the one behind it, such as ``prlimit``.

        Raises:
            BenchProcessError: it ended, or does not serve within two minutes.
        """
        self._folder = TemporaryDirectory(ignore_cleanup_errors=True)
        self.tokens = {app: f"{app}-{os.urandom(16).hex()}" for app in _APPS}
        """The token of each app; the first is the owner's."""
        tokens = Path(self._folder.name) / "tokens"
        tokens.touch(0o600)
        tokens.write_text("".join(f"{app} {token}\n" for app, token in self.tokens.items()), encoding="ascii")
        self._log = Path(self._folder.name) / "log"
        python = [sys.executable, "-X", "faulthandler", "-m", "agentrt"]
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [*prefix, *python, command, "--port", "0", "--token-file", str(tokens), *options],
                stdout=subprocess.DEVNULL,
                stderr=log,
                env=without_settings(self._folder.name),
            )
        try:
            self.port = self._wait_until_it_serves()
        except BaseException:
            self.kill()
            raise

    def _wait_until_it_serves(self) -> int:
        end = time.monotonic() + _START_S
        while time.monotonic() < end:
            if found := _SERVING.search(self.log()):
                return int(found[1])
            if self.process.poll() is not None:
                break
            time.sleep(0.02)
        raise BenchProcessError(self.process.returncode, self.log().splitlines()[-_LAST_LINES:])

    def log(self) -> str:
        """Return what the process has printed."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    def faults(self) -> list[str]:
        """Return the lines of its log that tell of crashes and of exceptions that no code expected."""
        return [line for line in self.log().splitlines() if any(word in line for word in _FAULTS)]

    def resources(self) -> Resources:
        """Return what the process holds now."""
        folder = Path("/proc") / str(self.process.pid)
        status = (folder / "status").read_text(encoding="ascii", errors="replace")
        rss_kib = int(re.search(r"^VmRSS:\s+(\d+)", status, re.MULTILINE)[1])  # type: ignore[index]
        return Resources(rss_kib / 1024, len(os.listdir(folder / "fd")), len(os.listdir(folder / "task")))

    def alive(self) -> bool:
        """Return whether the process has not ended."""
        return self.process.poll() is None

    def stop(self, within_s: float) -> float | None:
        """Send SIGTERM; return the seconds until the process ended, or None if it had to be killed."""
        begun = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(within_s)
        except subprocess.TimeoutExpired:
            self.kill()
            return None
        return time.monotonic() - begun

    def kill(self) -> None:
        """Kill the process and wait for its end."""
        self.process.kill()
        self.process.wait()

    def __enter__(self) -> Self:
        """Return the server itself."""
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Kill the process and delete its log."""
        self.kill()
        self._folder.cleanup()
