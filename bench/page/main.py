"""The page bench: how much the live page renders, and whether an open page delays requests."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ..common.machine import describe_machine
from ..common.report import BenchReport, Table
from .browser import Drawn, LivePage, open_browser
from .load import background, first_token_s, serve_nano

_PAUSE_S = 0.05
_METHOD = """\
The server of agentrt serve with nano, one thread, in a process of its own, and its live page in a headless \
Chromium {version} on the same machine. Rendering: while two proactive answers are written without a \
pause, the page is shown for {seconds:.0f} s. events_per_s_rendered are kernels, ended requests and answered \
calls that it took in and drew; dropped_frames are frames of the screen, at 60 a second, for which it drew \
no new picture, dropped_frames_of_an_empty_page those of an empty one beside the same load, afterwards. \
Waiting: beside the same load, {blocks} pairs of blocks of {questions} reactive questions, one \
block with the page open and one without; every second pair begins with the page. \
ttft_ratio_with_page_open is the median of the pairs' ratios of medians of the time to the first token, seen \
by the client."""


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
    with (
        serve_nano() as url,
        open_browser(url) as (page, version),
        background(url),
    ):
        page.open()
        first_token_s(url, 3, _PAUSE_S)  # warms up the browser and the kernels
        drawn = page.watch(size.seconds)
        page.close()
        empty = page.watch(size.seconds)
        progress(
            f"{drawn.events / drawn.seconds:.0f} events/s, {drawn.dropped} frames dropped, "
            f"{empty.dropped} by an empty page"
        )
        pairs = [_pair(url, page, size, place % 2 == 1, progress) for place in range(size.blocks)]
    method = _METHOD.format(
        version=version, seconds=size.seconds, blocks=size.blocks, questions=size.questions
    )
    return _report(drawn, empty, pairs, method)


def _pair(
    url: str, page: LivePage, size: Size, page_first: bool, progress: Callable[[str], None]
) -> tuple[float, float]:
    """Return the median time to the first token, in seconds, with the page and without it."""
    medians = {}
    for shown in (page_first, not page_first):
        page.open() if shown else page.close()
        medians[shown] = statistics.median(first_token_s(url, size.questions, _PAUSE_S))
    progress(
        f"first token: {1e3 * medians[True]:.2f} ms with the page, {1e3 * medians[False]:.2f} ms without"
    )
    return medians[True], medians[False]


def _report(drawn: Drawn, empty: Drawn, pairs: list[tuple[float, float]], method: str) -> BenchReport:
    ratios = [shown / hidden for shown, hidden in pairs]
    return BenchReport(
        bench="page",
        machine=describe_machine(),
        figures={
            "events_per_s_rendered": drawn.events / drawn.seconds,
            "dropped_frames": drawn.dropped,
            "dropped_frames_of_an_empty_page": empty.dropped,
            "pictures_per_s": drawn.pictures / drawn.seconds,
            "longest_frame_ms": drawn.longest_ms,
            "server_frames_missed": drawn.missed,
            "ttft_ratio_with_page_open": statistics.median(ratios),
            "ttft_ms_with_page_open": 1e3 * statistics.median(shown for shown, _ in pairs),
            "ttft_ms_without_page": 1e3 * statistics.median(hidden for _, hidden in pairs),
        },
        tables=(
            Table(
                title="the page's main thread, ms of each second",
                columns=("page", "script", "style", "layout", "all"),
                rows=tuple((name, *each.busy.values()) for name, each in (("live", drawn), ("empty", empty))),
            ),
            Table(
                title="time to the first token, ms",
                columns=("pair", "with the page", "without", "ratio"),
                rows=tuple(
                    (place, 1e3 * shown, 1e3 * hidden, shown / hidden)
                    for place, (shown, hidden) in enumerate(pairs, 1)
                ),
            ),
        ),
        method=method,
    )
