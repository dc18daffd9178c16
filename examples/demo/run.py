"""The demo from its data to its result."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from agentrt.runtime import LocalRuntime

from ..assistant.data import PersonalData, copy_data, workspace
from ..assistant.latencies import Latencies
from ..assistant.requests import demo_requests, requests_about
from ..assistant.services import running_services
from ..personal_assistant import open_runtime
from .background import Waits, measure_waits
from .comparison import Comparison, compare
from .view import DemoView

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


def run_demo(
    source: Path,
    latencies: Latencies,
    view: DemoView,
    *,
    model: str = "nano",
    pace: float = 0.0,
    requests: Sequence[str] | None = None,
    page: DemoPage | None = None,
) -> Result:
    """Run the demo on copies of the data in ``source``.

    ``model`` is what :func:`open_runtime` takes, ``pace`` what :func:`compare` takes, ``requests`` are by
    default questions about the data. ``page`` shows what happens.
    """
    observers = () if page is None else (page.speculation,)
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(workspace())
        today = dt.date.today()  # one date for the whole run, also past midnight
        local = [stack.enter_context(_copy(source, folder / name, today)) for name in ("plain", "agentrt")]
        services = stack.enter_context(running_services(folder / "plain" / "mail.mbox", latencies))
        remote = [replace(data, mail=stack.enter_context(services.mail())) for data in local]
        asked = demo_requests(local[0]) if requests is None else requests
        questions = requests_about(local[0])[:-1]  # the last one writes
        with open_runtime(model) as runtime, _shown(page, runtime):
            comparison = asyncio.run(
                compare(
                    runtime, (remote[0], remote[1]), services, asked, view, pace=pace, observers=observers
                )
            )
            agentrt = asyncio.run(measure_waits(runtime, local[0], questions, "agentrt", view))
        with open_runtime(model, policy="fcfs") as runtime, _shown(page, runtime):
            fcfs = asyncio.run(measure_waits(runtime, local[0], questions, "in order of arrival", view))
    return Result(comparison, fcfs, agentrt)


def _shown(page: DemoPage | None, runtime: LocalRuntime) -> AbstractContextManager[None]:
    return contextlib.nullcontext() if page is None else page.watching(runtime)


@contextmanager
def _copy(source: Path, target: Path, today: dt.date) -> Iterator[PersonalData]:
    copy_data(source, target)
    with contextlib.closing(PersonalData.open(target, lambda: today)) as data:
        yield data
