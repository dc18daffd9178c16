"""``agentrt top`` in a terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from agentrt.runtime import LocalRuntime
from agentrt.runtime.serving.http.identity import Tokens
from tests.agentrt.cli.top.conftest import token_file
from tests.agentrt.cli.top.frames import STREAM, event, frame, request
from tests.patience import PATIENCE_S
from tests.runtime.serving.gateway.scripted import Scripted
from tests.runtime.serving.http.serving import Running
from tests.runtime.serving.server.conftest import HELLO, running

_CODE = re.compile(r"\x1b(\[[0-9;?]*[a-zA-Z])")


class Terminal:
    """``agentrt top`` as the foreground process of a terminal."""

    def __init__(self, *options: object, settings: Path) -> None:
        self._controller, terminal = pty.openpty()
        self.resize(100, 40)
        unset = ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR")
        environment = {name: value for name, value in os.environ.items() if name not in unset}
        command = [sys.executable, "-m", "agentrt", "top", *map(str, options)]
        self._process = subprocess.Popen(
            command,
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            env=environment | {"TERM": "xterm", "XDG_CONFIG_HOME": str(settings)},
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(terminal)
        self.written = ""

    def resize(self, columns: int, rows: int) -> None:
        self._rows = rows
        fcntl.ioctl(self._controller, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, keys: str) -> None:
        os.write(self._controller, keys.encode())

    @property
    def lines(self) -> list[str]:
        """The newest whole picture; what was written after the last one, once that is gone."""
        after = self.written.rpartition("\x1b[?1049l")[2] if "\x1b[?1049l" in self.written else ""
        pictures = [] if after else self.written.split("\x1b[H")
        for picture in reversed(pictures):
            lines = _CODE.sub("", picture).splitlines()
            if len(lines) == self._rows:
                return [line.rstrip() for line in lines]
        return _CODE.sub("", after).splitlines()

    def until(self, seen: Callable[[list[str]], bool] | str) -> list[str]:
        """Read until a line has a text, or the lines are as ``seen`` says; return them."""
        true = seen if callable(seen) else lambda lines: any(seen in line for line in lines)
        deadline = time.monotonic() + PATIENCE_S
        while not true(self.lines):
            assert time.monotonic() < deadline, self.lines
            if select.select([self._controller], [], [], 1)[0]:
                self.written += os.read(self._controller, 65536).decode(errors="replace")
        return self.lines

    def ended(self) -> int:
        """Read until it ends; return its exit code."""
        while True:
            try:
                self.written += os.read(self._controller, 65536).decode(errors="replace")
            except OSError:  # nothing has the terminal open any more
                return self._process.wait(PATIENCE_S)

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._controller)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Terminal]]:
    """Starts agentrt top in terminals."""
    with ExitStack() as stack:

        def start(*options: object) -> Terminal:
            terminal = Terminal(*options, settings=tmp_path / "settings")
            stack.callback(terminal.close)
            return terminal

        yield start


def test_it_goes_on_until_ctrl_c(server: Running, tokens: Path, start: Callable[..., Terminal]) -> None:
    top = start("--url", server.url, "--token-file", tokens)
    top.until("requests: none")
    body = {"model": "nano", "messages": HELLO, "max_tokens": 3}
    headers = {"authorization": "Bearer " + "n" * 20}
    httpx.post(f"{server.url}/v1/chat/completions", json=body, headers=headers, timeout=60)
    top.until(lambda lines: any(re.match(r"reactive +notes", line) for line in lines))
    top.type("\x03")
    assert top.ended() == 0
    assert top.written.endswith("\x1b[?25h\x1b[?1049l"), "the cursor and the screen before are back"
    assert "Traceback" not in top.written


def test_a_signal_leaves_the_terminal_as_it_was(
    server: Running, tokens: Path, start: Callable[..., Terminal]
) -> None:
    top = start("--url", server.url, "--token-file", tokens)
    top.until("requests: none")
    top.signal(signal.SIGTERM)
    assert top.ended() == 128 + signal.SIGTERM
    assert top.written.endswith("\x1b[?25h\x1b[?1049l")


def test_it_fits_each_size_at_once(scripted: Callable[..., Scripted], start: Callable[..., Terminal]) -> None:
    rows = [request(id=f"gen_{number:08}", context="ctx_01234567") for number in range(5)]
    server = scripted(STREAM + event(frame(1.0, waiting=5, requests=rows)), stays=True)
    top = start("--url", server.url)
    top.until("proactive")
    for columns, height in ((40, 10), (80, 24), (200, 50), (30, 5)):
        top.resize(columns, height)

        def fits(lines: list[str], columns: int = columns, height: int = height) -> bool:
            return len(lines) == height and max(map(len, lines)) <= columns

        lines = top.until(fits)
        assert lines[0].startswith(server.url[:30])
        assert any("ctx_01234567" in line for line in lines) is (columns == 200)
        assert any(re.match("proactive .* waiting +1", line) for line in lines) is (columns >= 80)


@pytest.mark.check
def test_a_server_that_starts_again_is_followed(
    nano: LocalRuntime, tokens: Path, start: Callable[..., Terminal], tmp_path: Path
) -> None:
    with running(nano, tokens=Tokens.read(tokens)) as server:
        top = start("--url", server.url, "--token-file", tokens)
        top.until("requests: none")
    top.until(f"{server.url} has ended. Trying again; what follows is 0 s old   Ctrl-C ends")
    top.until("nothing listens there. Trying again; what follows is")
    top.until(lambda lines: not any(" 0 s old" in line for line in lines))
    with running(nano, tokens=Tokens.read(tokens), port=server.port):
        top.until("connected again at")
    other = Tokens.read(token_file(tmp_path / "other", mine="p"))
    with running(nano, tokens=other, port=server.port):
        top.until("does not know the token of")
        token_file(tokens, mine="p")
        top.until("connected again at")
    top.type("\x03")
    assert top.ended() == 0


def test_the_token_is_asked_for(server: Running, start: Callable[..., Terminal]) -> None:
    top = start("--url", server.url)
    for reason, token in (
        ("needs the token of its owner, and none was sent", "wröng"),
        ("does not know the token that was typed", "n" * 20),
        ("the token that was typed is that of an app", "o" * 20),
    ):
        top.until(reason)
        top.until(lambda lines: lines[-1] == "Token of the server's owner: ")
        top.type(f"{token}\r")
    top.until("requests: none")
    top.type("\x03")
    assert top.ended() == 0
    assert "o" * 20 not in top.written


def test_a_server_that_cannot_be_watched_ends_it(start: Callable[..., Terminal], tmp_path: Path) -> None:
    top = start("--uds", tmp_path / "none")
    assert top.ended() == 2
    assert f"{tmp_path / 'none'} cannot be watched: there is no such socket." in "".join(top.lines[-9:])


def test_a_server_that_ends_at_once_ends_it(
    scripted: Callable[..., Scripted], start: Callable[..., Terminal]
) -> None:
    server = scripted(STREAM)
    top = start("--url", server.url)
    assert top.ended() == 2
    assert f"{server.url} has ended. Start it again" in "".join(top.lines)


def test_a_unix_socket(nano: LocalRuntime, tmp_path: Path, start: Callable[..., Terminal]) -> None:
    with running(nano, uds=tmp_path / "s"):
        top = start("--uds", tmp_path / "s")
        top.until("requests: none")
        top.type("\x03")
        assert top.ended() == 0
