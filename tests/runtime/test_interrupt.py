"""Ctrl-C while models are opened, and after they were closed; two processes that open one model."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agentrt.bench.common.random_gguf import ModelShape, write_random_gguf
from agentrt.runtime.heg.profile import Profile
from agentrt.runtime.heg.store import MachineFigures, ProfileStore
from agentrt.runtime.model.gguf.cache import cached_models

pytestmark = [pytest.mark.check, pytest.mark.slow]

OPEN_AND_CLOSE = """
import signal, threading
from agentrt.runtime import LocalRuntime
from agentrt.runtime.nano import DRAFT_DIRECTORY
from agentrt.speculators import LocalSpeculator

first = LocalRuntime.open("nano")
second = [LocalRuntime.open("nano")]
draft = [LocalSpeculator(DRAFT_DIRECTORY, threads=1)]
first.close()
del first

def end():
    second.pop().close()
    draft.clear()

thread = threading.Thread(target=end)
thread.start()
thread.join()
try:
    signal.raise_signal(signal.SIGINT)
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C is no signal there")
def test_an_interrupt_reaches_python_after_models_were_closed() -> None:
    # In a process of its own: a freed signal stack that OpenVINO leaves behind would kill this one.
    ended = subprocess.run(
        [sys.executable, "-c", OPEN_AND_CLOSE], capture_output=True, text=True, timeout=300
    )
    assert (ended.returncode, ended.stdout) == (0, "interrupted\n"), ended.stderr


OPEN = """
import sys, time
from agentrt.runtime import LocalRuntime, RuntimeConfig

config = RuntimeConfig(threads=1, prefill_chunk_tokens=64)
interrupted_at = sys.argv[2]
begun = None

def hold(name=None):
    # No other step begins before the interrupt, however late it comes.
    if begun not in (None, name):
        time.sleep(300)

def say(step):
    global begun
    hold(step.name)
    if interrupted_at and step.name.startswith(interrupted_at):
        begun = step.name
    # One write: print() writes the end of the line by itself, and an interrupt may come between the two.
    sys.stdout.write(step.name + "\\n")
    sys.stdout.flush()

try:
    with LocalRuntime.open(sys.argv[1], config, on_step=say) as runtime:
        hold()
        runtime.generate([{"role": "user", "content": "Hello!"}], max_tokens=1)
        print("answered")
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    file = tmp_path / "model.gguf"
    write_random_gguf(file, ModelShape("qwen2", 6, 64, 128, 2, 1, 512, 1024))
    return file


def opening(model: Path, interrupted_at: str = "") -> subprocess.Popen[str]:
    """Start a process that opens ``model``, with a cache folder beside it; a step may be its last one."""
    return subprocess.Popen(
        [sys.executable, "-c", OPEN, str(model), interrupted_at],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"XDG_CACHE_HOME": str(model.with_name("cache"))},
    )


def end_of(process: subprocess.Popen[str]) -> list[str]:
    """Return the lines that the process has not yet printed."""
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    return output.splitlines()


@pytest.mark.skipif(sys.platform != "linux", reason="the cache folder is set as on Linux")
def test_ctrl_c_at_any_step_of_opening_leaves_nothing_broken(model: Path) -> None:
    cache = model.with_name("cache") / "agentrt"
    store = ProfileStore(cache / "profiles")
    for step in (
        "converting",
        "measuring: memory bandwidth",
        "measuring: CPU: compiling some of the layers",
        "measuring: CPU: decode of 4",
        "measuring: CPU: attention",
        "loading",
    ):
        with opening(model, interrupted_at=step) as process:
            assert any(line.startswith(step) for line in process.stdout), step
            process.send_signal(signal.SIGINT)
            assert end_of(process)[-1] == "interrupted", step
        converted = [path for path in (cache / "models").iterdir() if path.is_dir()]
        assert converted == [each.path for each in cached_models(cache / "models")]
        for file in (cache / "profiles").glob("*"):
            if not file.name.startswith(".lock-"):
                assert store.load(file.name, MachineFigures if file.name.startswith("machine-") else Profile)
    with opening(model) as process:
        # The profile was measured before the last interruption.
        assert end_of(process) == ["loading", "answered"]


@pytest.mark.skipif(sys.platform != "linux", reason="the cache folder is set as on Linux")
def test_of_two_processes_that_open_a_model_one_converts_and_measures_it(model: Path) -> None:
    with opening(model) as one, opening(model) as other:
        lines = end_of(one) + end_of(other)
    assert lines.count("answered") == 2
    assert lines.count("measuring: memory bandwidth") == 1
    assert lines.count("measuring: CPU: decode of 1") == 1
