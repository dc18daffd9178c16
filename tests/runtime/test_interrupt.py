"""Ctrl-C after models were opened and closed."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

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
signal.signal(signal.SIGINT, signal.default_int_handler)  # the shell may have disabled it for this process
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
