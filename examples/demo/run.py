"""The demo from its data to its result."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agentrt.runtime import LocalRuntime

from ..assistant.data import PersonalData, copy_data, workspace
from ..assistant.model import open_runtime
from ..assistant.requests import demo_requests, requests_about
from ..assistant.services import Latencies
from .background import Waits, measure_waits
from .comparison import Comparison, compare
from .view import SIDES, DemoView

if TYPE_CHECKING:
    from .page import DemoPage


@dataclass(frozen=True)
class Result:
    """What the demo measured."""

    comparison: Comparison
    fcfs: Waits
    """The user's questions beside background digests, with all requests served in order of arrival."""
    agentrt: Waits
    """The same with agentrt's own scheduling policy."""

    @property
    def ttft_ratio(self) -> float:
        """How many times longer a question waits for its first token in order of arrival; medians."""
        return self.fcfs.median_s / self.agentrt.median_s

    def figures(self) -> dict[str, float]:
        """Return the figures of ``agentrt demo --json``."""
        comparison, counts = self.comparison, self.comparison.counts
        plain, ours = comparison.waited_s
        return {
            "waiting_saved_pct": 100 * comparison.saved_share,
            "transcripts_equal": float(not comparison.different),
            "reactive_ttft_ratio_vs_fcfs": self.ttft_ratio,
            "waited_plain_s": plain,
            "waited_agentrt_s": ours,
            "requests_different": len(comparison.different),
            "requests_unanswered": len(comparison.unanswered),
            "calls_claimed": counts.hits,
            "calls_missed": counts.misses,
            "speculations_wasted": counts.wasted,
            "ahead_kept": counts.ahead_kept,
            "ahead_wasted": counts.ahead_wasted,
            "reactive_ttft_ms": 1e3 * self.agentrt.median_s,
            "reactive_ttft_ms_fcfs": 1e3 * self.fcfs.median_s,
        }


def run_demo(
    paths: Sequence[Path],
    latencies: Latencies,
    view: DemoView,
    *,
    model: str = "nano",
    pace: float = 0.0,
    requests: Sequence[str] | None = None,
    page: DemoPage | None = None,
) -> Result:
    """Run the demo on copies of the data in ``paths``.

    ``model`` is what :func:`open_runtime` takes, ``pace`` what :func:`compare` takes, ``requests`` are by
    default questions about the data. ``page`` shows what happens.
    """
    observers = () if page is None else (page.speculation,)
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(workspace())
        today = dt.date.today()  # one date for the whole run, also past midnight
        plain, ours = (stack.enter_context(_copy(paths, folder / name, today)) for name in SIDES)
        asked = demo_requests(plain) if requests is None else requests
        questions = requests_about(plain)[:-1]  # the last one writes
        with open_runtime(model) as runtime, _shown(page, runtime):
            comparison = asyncio.run(
                compare(runtime, (plain, ours), latencies, asked, view, pace=pace, observers=observers)
            )
            agentrt = asyncio.run(measure_waits(runtime, plain, questions, "agentrt", view))
        with open_runtime(model, policy="fcfs") as runtime, _shown(page, runtime):
            fcfs = asyncio.run(measure_waits(runtime, plain, questions, "in order of arrival", view))
    return Result(comparison, fcfs, agentrt)


def _shown(page: DemoPage | None, runtime: LocalRuntime) -> AbstractContextManager[None]:
    return contextlib.nullcontext() if page is None else page.watching(runtime)


@contextmanager
def _copy(paths: Sequence[Path], target: Path, today: dt.date) -> Iterator[PersonalData]:
    copy_data(paths, target)
    with contextlib.closing(PersonalData.open(target, today=lambda: today)) as data:
        yield data
