"""The gateway bench: what a gateway that shares outputs in Redis adds to an answer."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from agentrt.errors import BenchProcessError, ConfigurationError

from ..common.estimates import Estimate, median
from ..common.machine import describe_machine
from ..common.process import without_settings
from ..common.report import BenchReport
from ..common.served_runtime import RuntimeService, ServedRuntime, exact
from ..engines.endpoint import Endpoint
from ..engines.side import Request

PAIRS: dict[bool, int] = {True: 20, False: 100}
"""Answers with and without the gateway, in a quick run and in a full one."""
_ANSWER_TOKENS: Final = 48
_START_S: Final = 60.0
_LAST_LINES: Final = 20
_PARAMETERS: Final = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
_FUNCTION: Final[dict[str, Any]] = {
    "name": "get_weather",
    "description": "Get the weather in a city.",
    "parameters": _PARAMETERS,
}
METHOD: Final = """\
`agentrt gateway` stands before `agentrt serve` with the nano model in f32, each in a process of its own on \
one machine, with a Redis or Valkey server. added_ms_p50: the time to the first token of a streamed answer \
that may call a tool, by a gateway less without it, alternately and one at a time, the median; \
added_ms_at_the_end_p50: the same for the end of the answer, on a machine whose cores the model needs."""


def run(*, quick: bool, workloads: Path | None, progress: Callable[[str], None]) -> BenchReport:
    """Run the bench; there are no ``workloads`` for it.

    Raises:
        ConfigurationError: this machine has neither valkey-server nor redis-server.
        BenchProcessError: a process died.
    """
    machine = describe_machine()
    with ServedRuntime(_serve) as engine:
        upstream = f"http://127.0.0.1:{engine.port}"
        with _gateway_before(upstream) as gateway:
            progress(f"{PAIRS[quick]} answers with and without a gateway")
            first_ms, end_ms = added_ms(
                Endpoint("gateway", gateway), Endpoint("engine", upstream), PAIRS[quick]
            )
    return BenchReport(
        bench="gateway",
        machine=machine,
        figures={"added_ms_p50": first_ms, "added_ms_at_the_end_p50": end_ms},
        method=METHOD,
    )


def added_ms(gateway: Endpoint, engine: Endpoint, pairs: int) -> tuple[Estimate, Estimate]:
    """Return the median milliseconds by which a gateway delays the first token of an answer, and its end."""
    first, end = [], []
    for number in range(pairs + 1):
        tools = [{"type": "function", "function": _FUNCTION}]
        question = Request(f"What is the weather in Oslo on day {number}?", _ANSWER_TOKENS, tools)
        behind, without = gateway.generate(question), engine.generate(question)
        first.append(1e3 * (behind.first_s - without.first_s))
        end.append(1e3 * (behind.total_s - without.total_s))
    return median(first[1:]), median(end[1:])  # the first opens connections


def _serve() -> RuntimeService:
    from agentrt.runtime.serving.server import ServerConfig

    return RuntimeService("nano", exact(), ServerConfig(port=0))


@contextmanager
def _gateway_before(upstream: str) -> Iterator[str]:
    """Run a gateway before the engine at ``upstream``, and its Redis server; yield its address."""
    server = shutil.which("valkey-server") or shutil.which("redis-server")
    if server is None:
        raise ConfigurationError(
            "bench gateway needs valkey-server or redis-server. Install one: apt-get install redis-server"
        )
    with TemporaryDirectory() as folder:
        redis, port = _free_port(), _free_port()
        storing = [server, "--port", str(redis), "--bind", "127.0.0.1", "--save", "", "--dir", folder]
        relaying = [sys.executable, "-m", "agentrt", "gateway", "--upstream", upstream, "--no-auth"]
        relaying += ["--redis", f"redis://127.0.0.1:{redis}/0", "--port", str(port)]
        with (
            _listening(storing, redis, Path(folder, "redis.log")),
            _listening(relaying, port, Path(folder, "gateway.log")),
        ):
            yield f"http://127.0.0.1:{port}"


@contextmanager
def _listening(command: Sequence[str], port: int, log: Path) -> Iterator[None]:
    """Run a process that listens on a port of this machine while the block runs.

    Raises:
        BenchProcessError: it ended, or does not listen within a minute.
    """
    with log.open("wb") as file:
        process = subprocess.Popen(
            command, stdout=file, stderr=subprocess.STDOUT, env=without_settings(str(log.parent))
        )
    try:
        end = time.monotonic() + _START_S
        while not _listens(port):
            if process.poll() is not None or time.monotonic() > end:
                last = log.read_text("utf-8", "replace").splitlines()[-_LAST_LINES:]
                raise BenchProcessError(process.returncode, last)
            time.sleep(0.02)
        yield
    finally:
        process.kill()
        process.wait()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True
