"""``agentrt top`` where its output is no terminal."""

from __future__ import annotations

import itertools
import re
import threading
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from agentrt.runtime import LocalRuntime
from agentrt.runtime.serving.http.config import ListenConfig
from agentrt.runtime.serving.live.feed import LiveFeed
from agentrt.runtime.serving.live.frames import Frames
from agentrt.runtime.serving.live.routes import create_live_app
from tests.agentrt.cli.top.conftest import top
from tests.agentrt.cli.top.frames import STREAM, event, frame, request
from tests.runtime.serving.gateway.scripted import Scripted
from tests.runtime.serving.http.serving import Running, listening
from tests.runtime.serving.server.conftest import HELLO, running


def test_an_idle_server(server: Running, tokens: Path) -> None:
    shown = top("--url", server.url, "--token-file", tokens, sample_s=2.0)
    assert "nano" in shown
    assert "KV memory" in shown
    assert "0 tokens/s over 2.0 s   0 running   0 waiting\n" in shown
    assert "XPUs that ran kernels in the last 2.0 s: none\n" in shown
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


def test_what_was_not_recorded_is_not_known(scripted: Callable[..., Scripted]) -> None:
    kernels = [[1, 0.5, 0.1, 1, 1, 1, "gen_1", 0]]
    busy = scripted(
        STREAM + event(frame(1.0, running=1, kernels=kernels, counts={"finished": 7})), stays=True
    )
    shown = top("--url", busy.url)
    assert "tokens/s not known yet   1 running" in shown
    assert "XPUs: not known yet" in shown
    assert "since the server's start: 7 finished" in shown


def test_rates_are_of_the_frames_that_came(scripted: Callable[..., Scripted]) -> None:
    kernels = [[1, 1.5, 0.5, 1, 1, 3, "gen_1", 0]]
    first = event(frame(1.0, 4, running=1, counts={"sampled_tokens": 1000}))
    second = event(frame(2.0, 5, running=1, counts={"sampled_tokens": 1030}, kernels=kernels))
    shown = top("--url", scripted(STREAM + first + second, stays=True).url)
    assert "30 tokens/s over 1.0 s" in shown
    assert re.search(
        r"in the last 1\.0 s\nXPU +reactive +proactive +kernels/s\nm: decode +50% +0% +3\n", shown
    )


@pytest.mark.parametrize("columns", ["20", "80", "300"])
def test_nothing_is_cut_or_wrapped(
    scripted: Callable[..., Scripted], monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    app, name = "an-app-with-a-long-name" * 2, "m" * 100
    rows = [request(app=app, id=f"gen_{number:08}", context="ctx_01234567") for number in range(30)]
    ended = rows[0] | {"outcome": "stop", "queued_s": 0.5, "first_token_s": 1.0, "total_s": 2.0}
    held = [{"app": app, "context": "ctx_01234567", "bytes": 2**20}] * 5
    kv = {"bytes": 2**28, "free_bytes": 2**27, "cached_bytes": 0, "held": held}
    whole = frame(1.0, name=name, waiting=30, requests=rows, ended=[ended], kv=kv, stalled_s=0)
    shown = top("--url", scripted(STREAM + event(whole), stays=True).url)
    lines = shown.splitlines()
    assert "…" not in shown
    assert len([line for line in lines if re.match(f"proactive +{app} +gen_", line)]) == 31
    for number in range(30):
        assert len([line for line in lines if f"gen_{number:08}" in line and "first token in" in line]) == 1
    assert "; ".join([f"{app} ctx_01234567 1.0 MiB"] * 5) in shown
    assert any(line.startswith(name) for line in lines)
    assert not any(line.endswith(" ") for line in lines)
    assert set("█▄·") & set(shown) == set()


def test_a_page_without_models() -> None:
    drafts = itertools.count()  # so that each frame is another one

    def speculation() -> dict[str, float]:
        return {"drafts": next(drafts), "claims": 0, "misses": 0, "wasted": 0, "saved_s": 0.0}

    config = ListenConfig(port=0)
    feed = LiveFeed(lambda: Frames(lambda: (), speculation))
    with listening(create_live_app(feed, config), config) as server:
        shown = top("--url", server.url, sample_s=2.0)
    assert "KV memory: none" in shown
    assert re.search(r"speculation: [1-9]\d* drafts, 0 claims", shown)


def test_a_unix_socket(nano: LocalRuntime, tmp_path: Path) -> None:
    with running(nano, uds=tmp_path / "s"):
        assert "nano" in top("--uds", tmp_path / "s")
