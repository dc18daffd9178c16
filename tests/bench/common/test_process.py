from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agentrt.bench.common import process
from agentrt.bench.common.process import SideProcess
from agentrt.errors import AgentRTError, BenchProcessError


class Side:
    """What runs in the other process."""

    def __init__(self, fails: bool = False) -> None:
        if fails:
            sys.stderr.write("no such model\n")
            sys.stderr.flush()
            os._exit(3)

    def double(self, number: int) -> int:
        print("doubling", file=sys.stderr)
        return 2 * number

    def start_child(self) -> None:
        self._child = subprocess.Popen([sys.executable, "-c", "while True: pass"])

    def stop_child(self) -> None:
        self._child.kill()
        self._child.wait()

    def refuse(self) -> None:
        raise AgentRTError("refused. Ask again.")

    def die(self) -> None:
        os.write(2, b"one\ntwo\nout of memory\n")
        os.kill(os.getpid(), signal.SIGKILL)

    def abort(self) -> None:
        os.abort()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_time_of_its_children_is_the_processes() -> None:
    with SideProcess(Side) as side:
        before = side.cpu_s()
        side.call("start_child")
        while (found := side.cpu_s()) is not None and before is not None and found < before + 0.3:
            pass  # which times out if the child does not count
        side.call("stop_child")


def test_calls_reach_the_object_and_its_errors_the_caller(capfd: pytest.CaptureFixture[str]) -> None:
    with SideProcess(Side) as side:
        assert side.call("double", 3) == 6
        with pytest.raises(AgentRTError, match="refused"):
            side.call("refuse")
    assert "doubling" in capfd.readouterr().err


def test_a_side_that_cannot_start_shows_its_last_lines() -> None:
    with pytest.raises(BenchProcessError, match=r"(?s)code 3.*\n  no such model\n") as caught:
        SideProcess(Side, True)
    assert caught.value.exit_code == 3
    assert caught.value.last_lines == ("no such model",)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
def test_a_side_that_dies_shows_its_last_lines() -> None:
    with (
        pytest.raises(BenchProcessError, match=r"(?s)signal 9.*\n  out of memory\n"),
        SideProcess(Side) as side,
    ):
        side.call("die")
    with pytest.raises(BenchProcessError, match=r"Fatal Python error: Aborted"), SideProcess(Side) as side:
        side.call("abort")
    with pytest.raises(BenchProcessError, match="out of memory") as caught:
        lose_a_server()
    assert isinstance(caught.value.__cause__, ConnectionError)
    with pytest.raises(ConnectionError), SideProcess(Side):
        raise ConnectionError("of another server")


def lose_a_server() -> None:
    with SideProcess(Side) as side:
        side._connection.send(("die", ()))
        side._process.join()
        raise ConnectionError("all connection attempts failed")  # because the side has died


class Refusing:
    """A side whose object cannot be made."""

    def __init__(self) -> None:
        raise AgentRTError("no such model. Pull it.")


@pytest.mark.filterwarnings("error")
def test_a_side_ends_and_leaves_no_files_whatever_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(AgentRTError, match="no such model"):
        SideProcess(Refusing)
    other = BenchProcessError(1, ["of another side"])
    with pytest.raises(BenchProcessError, match="another side"), SideProcess(Side) as side:
        raise other
    assert not side._process.is_alive()
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_at_the_start_of_a_side_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def interrupted() -> Iterator[None]:
        yield
        raise KeyboardInterrupt  # which came meanwhile

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(process, "_interrupts_blocked", interrupted)
    with pytest.raises(KeyboardInterrupt):
        SideProcess(Side)
    assert multiprocessing.active_children() == []
    assert list(tmp_path.iterdir()) == []


INTERRUPTED = """
import os, signal, sys, time
from agentrt.bench.common.process import SideProcess

class Side:
    def wait(self):
        if sys.argv[1] == "while it works":
            os.killpg(0, signal.SIGINT)
        time.sleep(60)

if __name__ == "__main__":
    try:
        with SideProcess(Side) as side:
            side.call("wait")
    except KeyboardInterrupt:
        print("interrupted")
elif sys.argv[1] == "while it is imported":
    os.killpg(0, signal.SIGINT)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
@pytest.mark.parametrize("when", ["while it is imported", "while it works"])
def test_ctrl_c_shows_no_traceback_of_the_side(tmp_path: Path, when: str) -> None:
    script = tmp_path / "script.py"
    script.write_text(INTERRUPTED)
    command = [sys.executable, str(script), when]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, start_new_session=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "interrupted\n", "")
