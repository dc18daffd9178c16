"""Ctrl-C after models have come and gone."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

MODELS_COME_AND_GO = """
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
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have had this process ignore it
try:
    signal.raise_signal(signal.SIGINT)
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C is no signal there")
def test_an_interrupt_reaches_python_whoever_let_go_of_models_and_when() -> None:
    # In a process of its own: OpenVINO would leave a signal stack behind that is gone, which kills it.
    ended = subprocess.run(
        [sys.executable, "-c", MODELS_COME_AND_GO], capture_output=True, text=True, timeout=300
    )
    assert (ended.returncode, ended.stdout) == (0, "interrupted\n"), ended.stderr
