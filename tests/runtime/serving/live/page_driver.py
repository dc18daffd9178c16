"""What tests of the live page do with a browser."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

import agentrt.runtime.serving.live
from tests.runtime.serving.http.serving import Running, until
from tests.runtime.serving.live.conftest import OTHER
from tests.runtime.serving.server.conftest import HELLO

TOKEN = "o" * 20


FILE = (Path(agentrt.runtime.serving.live.__file__).parent / "page" / "index.html").as_uri()


@contextmanager
def asking(server: Running, headers: dict[str, str] = OTHER, **more: Any) -> Iterator[None]:
    """Answers of nano, one after the other."""
    stop = threading.Event()
    body = {"model": "nano", "messages": HELLO, "max_tokens": 100, "service_tier": "flex"} | more

    def ask() -> None:
        with httpx.Client(base_url=server.url, headers=headers, timeout=60) as http:
            while not stop.is_set():
                http.post("/v1/chat/completions", json=body).raise_for_status()

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(60)


def wait(page: Any, expression: str, argument: Any = None) -> None:
    """Wait until an expression is true; Playwright's own wait needs a policy that allows ``eval``."""
    until(lambda: page.evaluate(expression, argument))


def open_live(page: Any, server: Running) -> None:
    """Open the page, and connect with the owner's token."""
    page.goto(server.url)
    page.get_by_label("Token of the server's owner").fill(TOKEN)
    page.keyboard.press("Enter")
    wait(page, "live.state.t !== null")


def frame(**model: Any) -> dict[str, Any]:
    """A frame of one model as a server sends it."""
    whole = {"name": "m", "status": "loaded", "counts": {}, "xpus": ["prefill", "decode"]}
    return {"n": 1, "t": 1.0, "models": [whole | model]}


def apply(page: Any, *frames: dict[str, Any]) -> None:
    """Show frames that no server has sent."""
    page.evaluate(
        "frames => { live.stream.close(); for (const each of frames) live.receive(JSON.stringify(each)) }",
        list(frames),
    )


def replayed(page: Any, path: Path) -> None:
    """Open a recording in a page that no server has sent."""
    page.goto(FILE)
    page.set_input_files("#file", path)
    wait(page, "live.player !== null")
    page.evaluate("live.player.playing = false; live.seek(live.player.duration)")
