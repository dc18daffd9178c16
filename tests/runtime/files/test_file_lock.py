"""Locks between processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from agentrt.own_files import NotAFileError
from agentrt.runtime.files.file_lock import file_lock


def test_a_lock_that_is_held_is_refused_without_waiting(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    with file_lock(file), pytest.raises(BlockingIOError, match="is locked"), file_lock(file, wait=False):
        pass
    with file_lock(file, wait=False):
        pass


FORK = """
import os, sys
from contextlib import ExitStack
from pathlib import Path
from agentrt.runtime.files.file_lock import file_lock

file = Path(sys.argv[1])
read, write = os.pipe()
with ExitStack() as stack:
    stack.enter_context(file_lock(file))
    child = os.fork()
    if child == 0:
        if sys.argv[2] == "leaves":
            stack.close()
        else:
            os.close(write)
            os.read(read, 1)  # until the parent has done
        os._exit(0)
    if sys.argv[2] == "leaves":
        os.waitpid(child, 0)
        try:
            with file_lock(file, wait=False):
                print("the child has released it")
        except BlockingIOError:
            print("held")
with file_lock(file, wait=False):
    print("free")
os.close(write)
os.waitpid(child, 0) if sys.argv[2] == "stays" else None
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
@pytest.mark.parametrize(("child", "printed"), [("leaves", "held\nfree\n"), ("stays", "free\n")])
def test_a_forked_child_neither_releases_nor_holds_a_lock(tmp_path: Path, child: str, printed: str) -> None:
    command = [sys.executable, "-c", FORK, str(tmp_path / "lock"), child]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, printed, "")


@pytest.mark.skipif(os.name != "posix", reason="FIFOs of POSIX")
@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir])
def test_what_is_no_file_is_no_lock(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "lock")
    with pytest.raises(NotAFileError, match="lock is no regular file"), file_lock(tmp_path / "lock"):
        pass
