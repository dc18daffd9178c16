"""The page bench: how much the live page renders, and whether an open page delays requests."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..common.estimates import exact, mean, median
from ..common.machine import describe_machine
from ..common.report import BenchReport
from ..common.served_runtime import RuntimeService, ServedRuntime
from ..engines.endpoint import Endpoint
from ..engines.side import Request
from .browser import LivePage, open_browser

_PAUSE_S: Final = 0.05
_WATCHES: Final = 6
_WRITERS: Final = 2
_ANSWER_TOKENS: Final = 400
_QUESTION_TOKENS: Final = 8
_TEXT: Final = "The ferry leaves the harbour at noon and returns before the evening. " * 8
METHOD: Final = """\
The server of agentrt serve with nano, one thread, in a process of its own, and its live page in a \
headless Chromium on the same machine. While two proactive answers are written without a pause, the page \
is shown: events_per_s_rendered are kernels, ended requests and answered calls that it took in and drew, \
dropped_frames frames of the screen, at 60 a second, for which it drew no new picture. \
ttft_ratio_with_page_open is the median over pairs of blocks of reactive questions beside the same load, \
one block with the page open and one without, of the ratios of medians of the time to the first token, \
seen by the client."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured."""

    seconds: float
    """For which the page is watched."""
    blocks: int
    """Pairs of blocks of questions."""
    questions: int


SIZES = {True: Size(10.0, 4, 10), False: Size(60.0, 20, 40)}


def run(*, quick: bool, workloads: Path | None, progress: Callable[[str], None]) -> BenchReport:
    """Run the bench; it needs no workloads.

    Raises:
        ConfigurationError: there is no Chromium on this machine.
    """
    size = SIZES[quick]
    with serve_nano() as url, open_browser(url) as page, background(url):
        page.open()
        first_token_s(url, 3, _PAUSE_S)  # warms up the browser and the kernels
        drawn = [page.watch(size.seconds / _WATCHES) for _ in range(_WATCHES)]
        progress(f"{sum(each.events for each in drawn) / size.seconds:.0f} events/s")
        ratios = [_ratio(url, page, size, place % 2 == 1, progress) for place in range(size.blocks)]
    return BenchReport(
        bench="page",
        machine=describe_machine(),
        figures={
            "events_per_s_rendered": mean([each.events / each.seconds for each in drawn]),
            "dropped_frames": exact(sum(each.dropped for each in drawn)),
            "ttft_ratio_with_page_open": median(ratios),
        },
        method=METHOD,
    )


def _ratio(url: str, page: LivePage, size: Size, page_first: bool, progress: Callable[[str], None]) -> float:
    """Return the median time to the first token with the page over that without it."""
    medians = {}
    for shown in (page_first, not page_first):
        page.open() if shown else page.close()
        medians[shown] = statistics.median(first_token_s(url, size.questions, _PAUSE_S))
    progress(
        f"first token: {1e3 * medians[True]:.2f} ms with the page, {1e3 * medians[False]:.2f} ms without"
    )
    return medians[True] / medians[False]


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
    server, stop = Endpoint("agentrt", url), threading.Event()

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
    server = Endpoint("agentrt", url)

    def ask(number: int) -> float:
        time.sleep(pause_s)
        return server.generate(Request(f"Question {number}: {_TEXT}", _QUESTION_TOKENS)).first_s

    # Not on this thread: Playwright runs an event loop on it.
    with ThreadPoolExecutor(1) as asking:
        return list(asking.map(ask, range(questions)))
