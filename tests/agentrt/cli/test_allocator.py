from __future__ import annotations

import platform
import subprocess
import sys

import pytest

from agentrt.cli.allocator import share_arenas

THREADS = """
import ctypes, threading
from agentrt.cli.allocator import share_arenas
{call}
barrier = threading.Barrier(9)
def allocate():
    held = bytearray(50_000)
    barrier.wait()
    barrier.wait()
threads = [threading.Thread(target=allocate) for _ in range(8)]
for thread in threads:
    thread.start()
barrier.wait()
c = ctypes.CDLL(None)
c.malloc_info(0, ctypes.c_void_p.in_dll(c, "stdout"))
c.fflush(None)
barrier.wait()
"""


def arenas(call: str) -> int:
    """Return how many arenas a process with nine threads uses."""
    command = [sys.executable, "-c", THREADS.format(call=call)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    return printed.count("<heap nr=")


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="this C library has no arenas to bound")
def test_many_threads_share_two_arenas() -> None:
    assert arenas("share_arenas()") == 2
    assert arenas("") > 2, "glibc shares them by itself; nothing is tested"


def test_other_c_libraries_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctypes.CDLL", lambda name: object())
    share_arenas()
