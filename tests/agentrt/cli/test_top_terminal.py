"""``agentrt top`` in a terminal."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from agentrt.runtime import LocalRuntime
from agentrt.runtime.serving.http.identity import Tokens
from tests.agentrt.cli.chat.pseudo_terminal import CTRL_C, PseudoTerminal, terminal
from tests.agentrt.cli.test_top import nano, server, token_file, tokens
from tests.runtime.serving.http.serving import Running
from tests.runtime.serving.server.conftest import HELLO, running

__all__ = ["nano", "server", "tokens"]

Start = Callable[..., PseudoTerminal]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts agentrt top in terminals."""
    with ExitStack() as stack:

        def start(*options: object) -> PseudoTerminal:
            command = ("-m", "agentrt", "top", *map(str, options))
            settings = {"XDG_CONFIG_HOME": str(tmp_path / "settings")}
            return stack.enter_context(terminal(*command, environment=settings))

        yield start


def test_it_goes_on_until_ctrl_c(server: Running, tokens: Path, start: Start) -> None:
    top = start("--url", server.url, "--token-file", tokens)
    top.expect("requests: none")
    body = {"model": "nano", "messages": HELLO, "max_tokens": 3}
    headers = {"authorization": "Bearer " + "n" * 20}
    httpx.post(f"{server.url}/v1/chat/completions", json=body, headers=headers, timeout=60)
    top.expect("outcome")
    top.expect("length")
    top.type(CTRL_C)
    assert top.wait() == 0
    assert top.output.endswith(b"\x1b[?25h\x1b[?1049l"), "the cursor and the screen before are back"
    assert b"Traceback" not in top.output


def test_a_signal_leaves_the_terminal_as_it_was(server: Running, tokens: Path, start: Start) -> None:
    top = start("--url", server.url, "--token-file", tokens)
    top.expect("requests: none")
    top.process.send_signal(signal.SIGTERM)
    assert top.wait() == 128 + signal.SIGTERM
    assert top.output.endswith(b"\x1b[?25h\x1b[?1049l")


@pytest.mark.check
def test_a_server_that_starts_again_is_followed(nano: LocalRuntime, tokens: Path, start: Start) -> None:
    with running(nano, tokens=Tokens.read(tokens)) as server:
        top = start("--url", server.url, "--token-file", tokens)
        top.expect("requests: none")
    top.expect("Trying again; what follows is old")
    token_file(tokens, mine="p")
    with running(nano, tokens=Tokens.read(tokens), port=server.port):
        top.expect(f"{server.url}   Ctrl-C ends")
    top.type(CTRL_C)
    assert top.wait() == 0


def test_the_token_is_asked_for(server: Running, start: Start) -> None:
    top = start("--url", server.url)
    for reason, token in (
        ("needs the token of its owner, and none was sent", "wröng"),
        ("refuses the token that was typed", "n" * 20),
        ("refuses the token that was typed", "o" * 20),
    ):
        top.expect(reason)
        top.expect("Token of the server's owner: ")
        top.type(f"{token}\r")
    top.expect("requests: none")
    top.type(CTRL_C)
    assert top.wait() == 0
    assert b"o" * 20 not in top.output


def test_a_server_that_cannot_be_watched_ends_it(start: Start, tmp_path: Path) -> None:
    top = start("--uds", tmp_path / "none")
    assert top.wait() == 2
    assert re.search(rb"cannot be watched: there is no such socket\.", top.output.replace(b"\r\n", b""))
