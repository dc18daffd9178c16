"""Requests to a server: answers in the background, and questions whose first token is waited for."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

_PATH: Final = "/v1/chat/completions"
_WRITERS: Final = 2
_ANSWER_TOKENS: Final = 400
_TEXT: Final = "The ferry leaves the harbour at noon and returns before the evening. " * 8


@contextmanager
def background(url: str) -> Iterator[None]:
    """Have proactive answers written without a pause until the block ends."""
    import httpx

    stop = threading.Event()

    def write() -> None:
        with httpx.Client(base_url=url, timeout=60) as client:
            while not stop.is_set():
                body = _body(_TEXT, _ANSWER_TOKENS, "flex")
                client.post(_PATH, json=body).raise_for_status()

    writers = [threading.Thread(target=write, daemon=True) for _ in range(_WRITERS)]
    for writer in writers:
        writer.start()
    try:
        yield
    finally:
        stop.set()
        for writer in writers:
            writer.join()


def first_token_s(url: str, questions: int, pause_s: float) -> list[float]:
    """Ask questions one after the other; return the seconds that each waits for its first token."""
    import httpx

    waits = []
    with httpx.Client(base_url=url, timeout=60) as client:
        for number in range(questions):
            time.sleep(pause_s)
            body = _body(f"Question {number}: {_TEXT}", 8, "priority") | {"stream": True}
            began, waited = time.perf_counter(), None
            with client.stream("POST", _PATH, json=body) as response:
                response.raise_for_status()
                for line in response.iter_lines():
                    if waited is None and '"content":"' in line and '"content":""' not in line:
                        waited = time.perf_counter() - began
            if waited is not None:
                waits.append(waited)
    return waits


def _body(text: str, tokens: int, tier: str) -> dict[str, Any]:
    messages = [{"role": "user", "content": text}]
    # Answers of one length: the page is to have as much to show whatever nano says.
    return {"messages": messages, "max_tokens": tokens, "ignore_eos": True, "service_tier": tier}
