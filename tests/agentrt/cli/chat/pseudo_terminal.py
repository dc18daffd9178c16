"""A program on a pseudo terminal, as a user at a keyboard has it."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from tests.patience import PATIENCE_S

CTRL_C = b"\x03"
CTRL_D = b"\x04"
PROMPT = "\x1b[?2004h"
"""Printed when the program begins to read keys: it turns on the marks around pasted text."""


# Makes the terminal that of the new session, so that Ctrl-C is a signal, and becomes the program.
_START = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


class PseudoTerminal:
    """Keys in, the screen's bytes out."""

    def __init__(self, master: int, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self._master = master
        self._seen = b""
        self.output = b""
        """All that was printed and read so far."""

    def expect(self, text: str) -> str:
        """Read until ``text`` is printed; return what was printed since the last call, with it."""
        wanted = text.encode()
        while wanted not in self._seen:
            assert self._read(), f"{text!r} was not printed: {self._seen[-2000:]!r}"
        shown, _, self._seen = self._seen.partition(wanted)
        return (shown + wanted).decode("utf-8", "replace")

    def type(self, keys: str | bytes) -> None:
        """Press these keys."""
        os.write(self._master, keys.encode() if isinstance(keys, str) else keys)

    def resize(self, rows: int, columns: int) -> None:
        """Change the size of the window."""
        _set_size(self._master, rows, columns)

    def wait(self) -> int:
        """Read until the program ends; return its exit code."""
        while self._read():
            pass
        return self.process.wait()

    def _read(self) -> bool:
        if not select.select([self._master], [], [], PATIENCE_S)[0]:
            raise TimeoutError(f"nothing more was printed: {self._seen[-2000:]!r}")
        try:
            data = os.read(self._master, 65_536)
        except OSError:  # the program has closed its end
            return False
        self.output += data
        self._seen += data
        return bool(data)


def _set_size(terminal: int, rows: int, columns: int) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


@contextmanager
def terminal(
    *arguments: str, environment: Mapping[str, str] | None = None, columns: int = 80
) -> Iterator[PseudoTerminal]:
    """Run Python with ``arguments`` on a terminal of 24 rows."""
    master, slave = pty.openpty()
    _set_size(master, 24, columns)  # before the program looks
    # A size that is exported, as pytest does for its workers, would be taken for that of the terminal.
    inherited = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    process = subprocess.Popen(
        [sys.executable, "-c", _START, sys.executable, *arguments],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
        env={**inherited, "TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1", **(environment or {})},
    )
    os.close(slave)
    shown = PseudoTerminal(master, process)
    try:
        yield shown
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        os.close(master)
