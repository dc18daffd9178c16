"""``agentrt top`` where its output is no terminal, and what it says of servers that it cannot watch."""

from __future__ import annotations

import io
import itertools
import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from rich.console import Console
from typer.testing import CliRunner

from agentrt.cli import top as top_module
from agentrt.cli.main import app
from agentrt.cli.top_view import _owners, draw
from agentrt.errors import ConfigurationError
from agentrt.runtime import LocalRuntime
from agentrt.runtime.serving.http.config import ListenConfig
from agentrt.runtime.serving.http.identity import METRICS_READER, Tokens
from agentrt.runtime.serving.live.feed import LiveFeed
from agentrt.runtime.serving.live.frames import Frames
from agentrt.runtime.serving.live.routes import create_live_app
from tests.runtime.conftest import open_exact
from tests.runtime.serving.gateway.scripted import Scripted
from tests.runtime.serving.http.serving import Running, listening
from tests.runtime.serving.server.conftest import HELLO, running

STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
ROW = {
    **{"class": "proactive", "app": "notes", "id": "gen_0123", "context": "", "state": "waiting"},
    **{"promoted": False, "position": 1, "age_s": 1.0, "tokens": 0, "prefilled": 0.0, "first_token_s": 1.0},
}
"""A request that waits."""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the user's settings, which does not exist."""
    monkeypatch.setattr("platformdirs.user_config_path", lambda name: tmp_path / "settings" / name)
    return tmp_path / "settings" / "agentrt"


@pytest.fixture(scope="module")
def nano() -> Iterator[LocalRuntime]:
    with open_exact() as runtime:
        yield runtime


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    return token_file(tmp_path / "tokens", mine="o", notes="n")


def token_file(path: Path, **apps: str) -> Path:
    """Write a token file whose tokens are a letter each, many times."""
    path.touch(0o600)
    path.write_text("".join(f"{app} {letter * 20}\n" for app, letter in apps.items()))
    return path


@pytest.fixture
def server(nano: LocalRuntime, tokens: Path) -> Iterator[Running]:
    with running(nano, tokens=Tokens.read(tokens)) as server:
        yield server


@pytest.fixture
def scripted() -> Iterator[Callable[..., str]]:
    """Starts servers that send fixed bytes, and returns their addresses."""
    with ExitStack() as stack:

        def start(answer: bytes, **settings: Any) -> str:
            server = Scripted(answer, **settings)
            stack.callback(server.close)
            return server.url

        yield start


def frame(t: float, number: int = 1, counts: dict[str, int] | None = None, **model: Any) -> dict[str, Any]:
    """Return a frame of a server with one model."""
    names = ("sampled_tokens", "drafted_tokens", "accepted_tokens", "answered_calls")
    counted = dict.fromkeys((*names, "finished", "cancelled", "failed", "preemptions"), 0) | (counts or {})
    whole = {"name": "m", "status": "loaded", "xpus": ["prefill", "decode"], "counts": counted}
    return {"n": number, "t": t, "models": [whole | model]}


def event(frame: dict[str, Any]) -> bytes:
    """Return a frame as it is sent."""
    return f"data: {json.dumps(frame, separators=(',', ':'))}\n\n".encode()


def top(*options: object, sample_s: float = 0.2) -> str:
    """Run agentrt top without a terminal, and return what it prints of ``sample_s`` seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(top_module, "_SAMPLE_S", sample_s)
        result = CliRunner().invoke(app, ["top", *map(str, options)])
    if result.exit_code:
        raise result.exception or AssertionError(result.output)
    return result.output


def problem(*options: object) -> str:
    with pytest.raises(ConfigurationError) as caught:
        top(*options)
    said = str(caught.value)
    assert said.endswith(".")
    assert ".." not in said
    return said


def test_an_idle_server(server: Running, tokens: Path) -> None:
    shown = top("--url", f"{server.url}/v1", "--token-file", tokens)
    assert re.search(r"KV memory\nmodel.*\nnano +loaded", shown)
    assert "0 running   0 waiting\n" in shown
    assert "requests: none\n" in shown


@pytest.mark.check
def test_what_a_busy_server_does_is_measured(server: Running, tokens: Path) -> None:
    done = threading.Event()

    def ask() -> None:
        body = {"model": "nano", "messages": HELLO, "max_tokens": 20}
        headers = {"authorization": "Bearer " + "n" * 20}
        with httpx.Client(base_url=server.url, headers=headers, timeout=60) as client:
            while not done.is_set():
                client.post("/v1/chat/completions", json=body).raise_for_status()

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        shown = top("--url", server.url, "--token-file", tokens, sample_s=2.0)
    finally:
        done.set()
        asking.join()
    assert int(re.findall(r"([\d,]+) tokens/s over [12]\.\d s", shown)[0].replace(",", "")) > 0
    (kernels,) = re.findall(r"nano: decode +\d+% +\d+% +([\d,]+)", shown)
    assert int(kernels.replace(",", "")) > 0


def test_rates_are_of_the_frames_that_came(scripted: Callable[..., str]) -> None:
    kernels = [[1, 1.5, 0.5, 1, 1, 3, "gen_1", 0]]
    first = event(frame(1.0, 4, {"sampled_tokens": 1000, "finished": 7}, running=1, kernels=kernels))
    second = event(frame(2.0, 5, {"sampled_tokens": 1030, "finished": 7}, running=1, kernels=kernels))
    shown = top("--url", scripted(STREAM + first, stays=True))
    assert "tokens/s not known yet   1 running" in shown
    assert "XPUs in the last 0.0 s: none" in shown
    assert "since the server's start: 7 finished" in shown
    shown = top("--url", scripted(STREAM + first + second, stays=True))
    assert "30 tokens/s over 1.0 s" in shown
    assert re.search(
        r"in the last 1\.0 s\nXPU +reactive +proactive +kernels/s\nm: decode +50% +0% +3\n", shown
    )


def test_frames_before_a_gap_and_old_ones_are_forgotten(scripted: Callable[..., str]) -> None:
    numbers = (1, 2, *range(5, 25))
    sent = b"".join(event(frame(float(number), number)) for number in numbers)
    assert "tokens/s over 10.0 s" in top("--url", scripted(STREAM + sent, stays=True))
    sent = b"".join(event(frame(float(number), number)) for number in (1, 2, 5, 6))
    assert "tokens/s over 1.0 s" in top("--url", scripted(STREAM + sent, stays=True))


@pytest.mark.parametrize("columns", ["20", "300"])
def test_nothing_is_cut_or_wrapped(
    scripted: Callable[..., str], monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    app, name = "an-app-with-a-long-name" * 2, "m" * 100
    rows = [{**ROW, "app": app, "id": f"gen_{number:08}", "context": "ctx_0123"} for number in range(30)]
    ended = rows[0] | {"outcome": "stop", "queued_s": 0.5, "first_token_s": 1.0, "total_s": 2.0}
    held = [{"app": app, "context": "ctx_0123", "bytes": 2**20}] * 5
    kv = {"bytes": 2**28, "free_bytes": 2**27, "cached_bytes": 0, "held": held}
    whole = frame(1.0, name=name, waiting=30, requests=rows, ended=[ended], kv=kv, stalled_s=0)
    lines = top("--url", scripted(STREAM + event(whole), stays=True)).splitlines()
    for number in range(30):
        (line,) = [line for line in lines if f"gen_{number:08}" in line and "token in 1.00 s" in line]
        assert re.match(f"proactive +1 +waiting .* {app} +gen", line)
    assert any(re.match(f"proactive +{app} +gen_00000000 +stop +0.50 s +1.00 s +2.00 s", x) for x in lines)
    assert any(line.startswith(name) and line.count(f"{app} ctx_0123 1.0 MiB") == 5 for line in lines)
    assert not any("…" in line or line.endswith(" ") for line in lines)


def test_a_page_without_models() -> None:
    drafts = itertools.count()  # so that each frame is another one

    def speculation() -> dict[str, float]:
        return {"drafts": next(drafts), "claims": 0, "misses": 0, "wasted": 0, "saved_s": 0.0}

    feed = LiveFeed(lambda: Frames(lambda: (), speculation))
    config = ListenConfig(port=0)
    with listening(create_live_app(feed, config), config) as server:
        shown = top("--url", server.url, sample_s=1.0)
    assert "KV memory: none" in shown
    assert re.search(r"speculation: [1-9]\d* drafts, 0 claims", shown)


def drawn(width: int, *frames: dict[str, Any]) -> str:
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(draw(frames, "here"))
    return console.export_text(styles=False)


def test_names_are_no_commands_to_the_terminal() -> None:
    name = "\x1b]0;title\x07\x1b[2J[bold]\r\n\u202e"
    row = {**ROW, "app": name, "id": name, "context": name}
    ended = row | {"outcome": name, "queued_s": None, "first_token_s": 0.1, "total_s": 1.0}
    kv = {
        "bytes": 2,
        "free_bytes": 1,
        "cached_bytes": 0,
        "held": [{"app": name, "context": name, "bytes": 1}],
    }
    kernels = [[1, 0.5, 0.1, 1, 1, 1, name, 0]]
    model = {"name": name, "status": name, "requests": [row], "ended": [ended], "kv": kv, "stalled_s": 0}
    shown = drawn(600, frame(0.0), frame(1.0, 2, kernels=kernels, **model))
    assert not set(shown) & set("\x1b\x07\r\u202e")
    assert shown.count("[bold]") == 10


@pytest.mark.parametrize("width", [80, 120])
def test_class_state_position_and_expectation_are_readable(width: int) -> None:
    rows = [
        ROW | {"app": "an-app-with-a-long-name", "id": "gen_01234567", "position": 1234},
        ROW | {"state": "prefill", "prefilled": 0.45, "promoted": True, "not_known": "reactive go first"},
    ]
    lines = drawn(width, frame(1.0, waiting=1, requests=rows)).splitlines()
    assert max(map(len, lines)) <= width
    assert any(re.match("proactive +1234 +waiting +token in 1", line) for line in lines)
    assert any(re.match("proactive +1 +prefill 45.* reactive ", line) for line in lines)


def test_what_memory_is_held_for_adds_up() -> None:
    rows = [
        {"held_for": purpose, "app": app, "context": context, "bytes": 2**20}
        for purpose, app, context in (
            ("requests", "notes", "ctx_1"),
            ("requests", "notes", None),
            ("next turn", "", ""),
            ("disk", None, None),
        )
    ]
    assert (
        _owners(rows) == "notes ctx_1 1.0 MiB; notes several 1.0 MiB; - (next turn) 1.0 MiB; (disk) 1.0 MiB"
    )
    assert _owners(rows * 2).endswith("; notes ctx_1 1.0 MiB; 3 others 3.0 MiB")


def test_tokens_that_are_refused(server: Running, tmp_path: Path) -> None:
    none = problem("--url", server.url)
    unknown = problem("--url", server.url, "--token-file", token_file(tmp_path / "unknown", mine="x"))
    others = problem("--url", server.url, "--token-file", token_file(tmp_path / "others", notes="n"))
    assert none.startswith(f"{server.url} needs the token of its owner, and none was sent. Name the server's")
    assert unknown.startswith(f"{server.url} refuses the token of {tmp_path / 'unknown'}: ")
    assert others.startswith(f"{server.url} refuses the token of {tmp_path / 'others'}: ")
    assert unknown != others.replace("others", "unknown"), "the server says why"
    said = problem("--url", server.url, "--token-file", tmp_path / "none")
    assert "cannot be used: there is no such file" in said


def test_the_servers_own_reason_is_safe_to_print(scripted: Callable[..., str], tokens: Path) -> None:
    body = b'{"error": {"message": "not on\\u001b[2J Mondays.", "code": "mondays"}}'
    head = b"HTTP/1.1 403 Forbidden\r\ncontent-length: %d\r\n\r\n" % len(body)
    said = problem("--url", scripted(head + body), "--token-file", tokens)
    assert f"refuses the token of {tokens}: not on\u241b[2J Mondays. Name" in said


def test_the_token_of_this_user_is_for_servers_on_this_machine(
    nano: LocalRuntime, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.mkdir(parents=True)
    tokens = Tokens.read(folder / "tokens")
    assert METRICS_READER in tokens.apps
    with running(nano, tokens=tokens, host="0.0.0.0") as server:
        assert "nano" in top("--url", server.url)
        monkeypatch.setattr(
            "agentrt.runtime.serving.http.config.ListenConfig.loopback", False
        )  # another machine's
        assert "none was sent" in problem("--url", server.url)


def test_addresses_at_which_there_is_no_live_page(
    server: Running, scripted: Callable[..., str], tokens: Path
) -> None:
    assert "is not the address of a server" in problem("--url", "http://u:secret@x")
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    said = problem("--url", f"http://localhost:{port}/v1")
    assert said.startswith(f"http://localhost:{port} cannot be watched: nothing listens there. Start agentrt")
    said = problem("--url", server.url.replace("http://", "https://"))
    assert "it does not speak TLS, so that its address begins with http://" in said
    page = b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 2\r\n\r\nhi"
    assert "has no live page (status 200)" in problem("--url", scripted(page))
    assert "has no live page (status 404" in problem("--url", f"{server.url}/x", "--token-file", tokens)
    for data in (b'data: {"n":1}\n\n', b'data: {"n"\n\n', b'data: {"n":1,"t":0,"models":[1]}\n\n'):
        said = problem("--url", scripted(STREAM + data, stays=True))
        assert "sends events that this version of agentrt does not know" in said
    assert "has ended. Start it again" in problem("--url", scripted(STREAM))


def test_unix_sockets(nano: LocalRuntime, tmp_path: Path) -> None:
    with running(nano, uds=tmp_path / "s"):
        assert "nano" in top("--uds", tmp_path / "s")
    said = problem("--uds", tmp_path / "none")
    assert said.startswith(f"{tmp_path / 'none'} cannot be watched: there is no such socket.")
    assert "--uds" in said
    with pytest.raises(SystemExit):
        top("--url", "http://x", "--uds", "/x")
