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
from typing import NamedTuple, Self

from agentrt.bench.common.process import without_settings
from agentrt.errors import BenchProcessError
from tests.attack.wire import Answer, Request, exchange, post

_START_S = 120.0
_SERVING = re.compile(r"^serving .* at http://127\.0\.0\.1:(\d+)/v1$", re.MULTILINE)
_OLLAMAS = re.compile(r"^Ollama's interface at http://127\.0\.0\.1:(\d+)$", re.MULTILINE)
_FAULTS = ("Traceback", "Fatal Python error", "terminate called", "panicked", "ASGI")


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
        """
        self._folder = TemporaryDirectory(ignore_cleanup_errors=True)
        self.tokens = {app: f"{app}-{os.urandom(16).hex()}" for app in ("owner", "attacker", "other")}
        """The token of each app; the first is the owner's."""
        tokens, self._log = Path(self._folder.name) / "tokens", Path(self._folder.name) / "log"
        tokens.touch(0o600)
        tokens.write_text("".join(f"{app} {token}\n" for app, token in self.tokens.items()), encoding="ascii")
        python = [*prefix, sys.executable, "-X", "faulthandler", "-m", "agentrt"]
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [*python, command, "--port", "0", "--token-file", str(tokens), *options],
                stdout=subprocess.DEVNULL,
                stderr=log,
                env=without_settings(self._folder.name),
            )
        self._proc = Path("/proc") / str(self.process.pid)
        end = time.monotonic() + _START_S
        sought = _OLLAMAS if "--ollama" in options else _SERVING
        while not sought.search(self.log()):
            if time.monotonic() > end or self.process.poll() is not None:
                self.kill()
                raise BenchProcessError(self.process.returncode, self.log().splitlines()[-20:])
            time.sleep(0.02)
        served, ollamas = _SERVING.search(self.log()), _OLLAMAS.search(self.log())
        self.port = int(served[1]) if served else 0
        self.ollama_port = int(ollamas[1]) if ollamas else 0
        """That of Ollama's routes, with ``--ollama``."""

    def get(self, path: str) -> Answer:
        """Return the answer to a request of the owner."""
        return exchange(self.port, Request(path, "GET", path), self.tokens["owner"])

    def post(self, path: str, body: object) -> Answer:
        """Return the answer to a request of the owner with a JSON body."""
        return exchange(self.port, post(path, path, body), self.tokens["owner"])

    def attack(self, request: Request, timeout_s: float = 60) -> Answer:
        """Return the answer to a request of the attacker."""
        port = self.ollama_port if request.path.startswith("/api/") else self.port
        return exchange(port, request, self.tokens["attacker"], timeout_s)

    def log(self) -> str:
        """Return what the process has printed."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    def faults(self) -> list[str]:
        """Return the lines of its log that tell of crashes and of exceptions that no code expected."""
        return [line for line in self.log().splitlines() if any(word in line for word in _FAULTS)]

    def resources(self) -> Resources:
        held = (len(os.listdir(self._proc / name)) for name in ("fd", "task"))
        return Resources(self._mb("VmRSS"), *held)

    def peak_mb(self) -> float:
        """Return the most resident memory since :meth:`reset_peak`."""
        return self._mb("VmHWM")

    def reset_peak(self) -> None:
        (self._proc / "clear_refs").write_text("5")

    def _mb(self, name: str) -> float:
        status = (self._proc / "status").read_text(encoding="ascii", errors="replace")
        (kib,) = re.findall(rf"^{name}:\s+(\d+)", status, re.MULTILINE)
        return int(kib) / 1024

    def metrics(self) -> dict[str, float]:
        """Return the gauges and counters by name, summed over their labels."""
        found: dict[str, float] = {}
        page = self.get("/metrics").body.decode()
        for name, number in re.findall(r"^(\w+)(?:\{.*?\})? (\S+)$", page, re.MULTILINE):
            found[name] = found.get(name, 0.0) + float(number)
        return found

    def used_blocks(self) -> int:
        """Return how many KV blocks are held; cached ones that may be taken are free. A gateway has none."""
        found = self.metrics()
        return round(found.get("agentrt_kv_blocks", 0) - found.get("agentrt_kv_blocks_free", 0))

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
        self.process.kill()
        self.process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Kill the process and delete its log."""
        self.kill()
        self._folder.cleanup()
