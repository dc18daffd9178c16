"""Ctrl-C during an import waits for its end."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading

import pytest

from agentrt.concurrency.interrupts import interrupts_deferred

CTRL_C_WHILE_OPENVINO_IS_IMPORTED = """
import importlib.abc, signal, sys

class Interrupting(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "openvino._pyopenvino":
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
try:
    from agentrt.runtime import LocalRuntime
except KeyboardInterrupt:
    print("interrupted,", "openvino._pyopenvino" in sys.modules, end=" ")
from agentrt.runtime import LocalRuntime
print(LocalRuntime.__name__)
"""


def test_an_interrupt_comes_at_the_end_of_the_block() -> None:
    before, done = signal.getsignal(signal.SIGINT), []

    @interrupts_deferred()
    def interrupted() -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        done.append(True)

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert done == [True]
    assert signal.getsignal(signal.SIGINT) is before


def test_an_error_of_an_interrupted_block_is_its_context() -> None:
    @interrupts_deferred()
    def fail() -> None:
        signal.raise_signal(signal.SIGINT)
        raise ImportError("initialization failed")

    with pytest.raises(KeyboardInterrupt) as raised:
        fail()
    assert isinstance(raised.value.__context__, ImportError)


def test_without_an_interrupt_nothing_changes() -> None:
    before = signal.getsignal(signal.SIGINT)
    with interrupts_deferred():
        pass
    assert signal.getsignal(signal.SIGINT) is before
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with interrupts_deferred():
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, previous)


def test_other_threads_have_no_interrupts() -> None:
    before, found = signal.getsignal(signal.SIGINT), []

    def look() -> None:
        with interrupts_deferred():
            found.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert found == [before]


@pytest.mark.slow
def test_openvino_is_imported_whole() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CTRL_C_WHILE_OPENVINO_IS_IMPORTED],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout == "interrupted, True LocalRuntime\n", done.stderr
