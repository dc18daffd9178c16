"""The other client polls until it is stopped, and ends with the bench."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from agentrt.bench.attack.hostile_engine import HostileEngine
from agentrt.bench.attack.other_client import OtherClient
from tests.patience import until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
]

POLL = """
import sys, time
from agentrt.bench.attack.other_client import OtherClient

if __name__ == "__main__":
    other = OtherClient(int(sys.argv[1]), "token", chats=False)
    other.begin()
    print(other._process._process.pid, flush=True)
    time.sleep(600)
"""


def port_of(engine: HostileEngine) -> int:
    return int(engine.url.rsplit(":", 1)[1].partition("/")[0])


def test_all_requests_are_returned() -> None:
    with HostileEngine() as engine, OtherClient(port_of(engine), "token") as other:
        for _ in range(2):
            other.begin()
            waits = other.end()
            assert {wait.route for wait in waits} == {"health", "chat"}
            assert {wait.status for wait in waits} == {200}
            assert all(wait.seconds > 0 for wait in waits)


def test_a_server_that_does_not_answer_is_a_status_of_0() -> None:
    with HostileEngine() as engine:
        port = port_of(engine)
    with OtherClient(port, "token") as other:
        other.begin()
        assert {wait.status for wait in other.end()} == {0}


def test_it_ends_when_the_bench_is_killed() -> None:
    with HostileEngine() as engine:
        bench = subprocess.Popen(
            [sys.executable, "-c", POLL, str(port_of(engine))], stdout=subprocess.PIPE, text=True
        )
        assert bench.stdout is not None
        other = int(bench.stdout.readline())
        bench.kill()
        bench.wait()
        bench.stdout.close()
        until(lambda: not is_alive(other))


def is_alive(process: int) -> bool:
    try:
        stat = Path(f"/proc/{process}/stat").read_text(encoding="ascii")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"  # ended, and nothing has read its exit code yet
