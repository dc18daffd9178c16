"""``agentrt top`` on a real server."""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from rich.console import Console
from typer.testing import CliRunner

from agentrt.cli.main import app
from agentrt.cli.top.state import TopState
from agentrt.cli.top.view import clean, draw
from agentrt.errors import ConfigurationError
from agentrt.runtime import LocalRuntime
from agentrt.runtime.http.identity import Tokens, owner_token
from tests.runtime.conftest import open_exact
from tests.runtime.http.serving import Running
from tests.runtime.server.conftest import HELLO, running


@pytest.fixture(scope="module")
def nano() -> Iterator[LocalRuntime]:
    with open_exact() as runtime:
        yield runtime


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    path = tmp_path / "tokens"
    path.write_text(f"mine {'o' * 20}\nnotes {'n' * 20}\n")
    path.chmod(0o600)
    return path


@pytest.fixture
def server(nano: LocalRuntime, tokens: Path) -> Iterator[Running]:
    with running(nano, tokens=Tokens.read(tokens)) as server:
        yield server


def run(*options: object) -> str:
    result = CliRunner().invoke(app, ["top", *map(str, options)])
    if result.exit_code:
        raise result.exception or AssertionError(result.output)
    return result.output


def test_it_is_shown_once_where_there_is_no_terminal(server: Running, tokens: Path) -> None:
    shown = run("--url", server.url, "--token-file", tokens)
    assert "nano" in shown
    assert "KV memory" in shown
    assert "0 running" in shown


def test_a_unix_socket(nano: LocalRuntime, tmp_path: Path) -> None:
    with running(nano, uds=tmp_path / "s"):
        assert "nano" in run("--uds", tmp_path / "s")


def test_what_it_cannot_watch(server: Running, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text(f"notes {'n' * 20}\n")
    other.chmod(0o600)
    with pytest.raises(ConfigurationError, match="needs the token of its owner"):
        run("--url", server.url, "--token-file", other)
    with pytest.raises(ConfigurationError, match="needs the token of its owner"):
        run("--url", server.url)
    with pytest.raises(ConfigurationError, match=r"no server can be watched at .*--url"):
        run("--url", "http://127.0.0.1:1")
    with pytest.raises(ConfigurationError, match="no server can be watched"):
        run("--url", "nonsense")
    with pytest.raises(ConfigurationError, match="has no live page"):
        run("--url", f"{server.url}/v1", "--token-file", tmp_path / "tokens")
    with pytest.raises(ConfigurationError, match=r"the token file .* cannot be used: there is no such file"):
        run("--token-file", tmp_path / "none")
    other.write_text("# nothing\n")
    with pytest.raises(ConfigurationError, match="holds no token"):
        owner_token(other)


def test_in_a_terminal_it_goes_on_until_ctrl_c(server: Running, tokens: Path) -> None:
    controller, terminal = pty.openpty()
    command = [sys.executable, "-m", "agentrt", "top", "--url", server.url, "--token-file", str(tokens)]
    environment = os.environ | {"COLUMNS": "160", "LINES": "60", "TERM": "xterm"}
    with subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal, env=environment) as top:
        os.close(terminal)
        body = {"model": "nano", "messages": HELLO, "max_tokens": 3}
        shown = b""
        while b"KV memory" not in shown:
            shown += os.read(controller, 65536)
        headers = {"authorization": "Bearer " + "n" * 20}
        httpx.post(f"{server.url}/v1/chat/completions", json=body, headers=headers, timeout=60)
        while not re.search(rb"reactive\S* +notes", re.sub(rb"\x1b\[[0-9;?]*\w", b"", shown)):
            shown += os.read(controller, 65536)
        os.write(controller, b"\x03")
        top.send_signal(2)
        assert top.wait(30) == 0
    os.close(controller)


def frame(t: float, **model: object) -> dict[str, object]:
    names = ("sampled_tokens", "drafted_tokens", "accepted_tokens", "answered_calls")
    counts = dict.fromkeys((*names, "finished", "cancelled", "failed", "preemptions"), 0)
    whole = {"name": "m", "status": "loaded", "xpus": ["prefill", "decode"], "counts": counts}
    return {"n": 1, "t": t, "models": [whole | model]}


def test_it_does_not_grow() -> None:
    state = TopState()
    for number in range(3000):
        t = number / 5
        kernels = [[1, t - 0.2 + each / 200, 0.004, 1, each % 2, 1, "gen_1", 0] for each in range(40)]
        answered = [{"tools": [f"tool {number}"]}]
        state.apply(frame(t, kernels=kernels, ended=[{"id": str(number)}], answered=answered))
        state.use()
    assert (len(state.ended), len(state.tools)) == (8, 51)
    (use,) = state.use().values()
    assert 0.39 < use.reactive < 0.41
    assert 199 < use.kernels_per_s < 205
    assert sum(map(len, state._kernels.values())) < 3000
    state.apply(frame(0.0))
    assert state.use() == {}, "another server has another clock"


def test_names_are_no_commands_to_the_terminal() -> None:
    name = "\x1b]0;title\x07\x1b[2J[bold]\r\n\u202e"
    row = {
        "class": "reactive",
        "app": name,
        "id": name,
        "context": name,
        "state": "decode",
        "promoted": True,
        "position": None,
        "age_s": 1.0,
        "tokens": 1,
        "prefilled": 1.0,
    }
    ended = row | {"outcome": "stop", "queued_s": None, "first_token_s": 0.1, "total_s": 1.0}
    held = [{"app": name, "context": name, "bytes": 1}]
    kv = {"bytes": 2, "free_bytes": 1, "cached_bytes": 0, "held": held}
    state = TopState()
    state.apply(
        frame(
            1.0,
            name=name,
            requests=[row],
            ended=[ended],
            kv=kv,
            stalled_s=0,
            answered=[{"tools": [name]}],
            kernels=[[1, 0.5, 0.1, 1, 1, 1, name, 0]],
        )
    )
    console = Console(width=300, record=True, file=io.StringIO())
    console.print(draw(state, "here"))
    shown = console.export_text(styles=False)
    assert not set(shown) & set("\x1b\x07\r\u202e")
    assert "[bold]" in shown
    assert str(clean(None)) == ""
