"""nano's server in a process of its own, and requests to it: background answers, and timed questions."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final

from ..common.served_runtime import RuntimeService, ServedRuntime
from ..engines.endpoint import Endpoint
from ..engines.local import OURS
from ..engines.side import Request

_WRITERS: Final = 2
_ANSWER_TOKENS: Final = 400
_QUESTION_TOKENS: Final = 8
_TEXT: Final = "The ferry leaves the harbour at noon and returns before the evening. " * 8


@contextmanager
def serve_nano() -> Iterator[str]:
    """Yield the address of ``agentrt serve``'s server with nano, for requests without a token."""
    with ServedRuntime(_serve) as server:
        yield f"http://127.0.0.1:{server.port}"


def _serve() -> RuntimeService:
    from agentrt.runtime import RuntimeConfig
    from agentrt.runtime.serving.server import ServerConfig

    # One thread, as the demo has: the other cores are the browser's.
    return RuntimeService("nano", RuntimeConfig(threads=1), ServerConfig(port=0))


@contextmanager
def background(url: str) -> Iterator[None]:
    """Have proactive answers written without a pause until the block ends."""
    server, stop = Endpoint(OURS, url), threading.Event()

    def write() -> None:
        while not stop.is_set():
            # Answers of one length: the page is to have as much to show whatever nano says.
            server.generate(Request(_TEXT, _ANSWER_TOKENS, reactive=False))

    with ThreadPoolExecutor(_WRITERS) as threads:
        writers = [threads.submit(write) for _ in range(_WRITERS)]
        try:
            yield
        finally:
            stop.set()
        for writer in writers:
            writer.result()


def first_token_s(url: str, questions: int, pause_s: float) -> list[float]:
    """Ask questions one after the other; return the seconds that each waits for its first token."""
    server = Endpoint(OURS, url)

    def ask(number: int) -> float:
        time.sleep(pause_s)
        return server.generate(Request(f"Question {number}: {_TEXT}", _QUESTION_TOKENS)).first_s

    # Not on this thread: Playwright runs an event loop on it.
    with ThreadPoolExecutor(1) as asking:
        return list(asking.map(ask, range(questions)))
