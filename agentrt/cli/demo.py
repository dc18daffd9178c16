"""``agentrt demo``: the personal assistant plain and with agentrt, side by side."""

from __future__ import annotations

import contextlib
import datetime as dt
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import ConfigurationError
from ..extras import require_extra
from .options import AssistantModel, own_data
from .output import JsonFile, output_console, write_errors

if TYPE_CHECKING:
    from rich.console import Console

    from agentrt.examples.demo.page import DemoPage
    from agentrt.examples.demo.run import Result

_METHOD = (
    "The same requests by a plain agent and by one with agentrt, on one engine with the same tools. "
    "Waiting: from each request to its complete answer, summed. TTFT: the median of the user's questions "
    "beside background digests, under the policies fcfs and agent-xpu. "
    "Model {model}, {pace}; latencies times {latency:g}."
)


def demo(
    data: Annotated[list[str] | None, own_data("It is copied, not changed.")] = None,
    model: AssistantModel = "nano",
    latency: Annotated[
        float,
        typer.Option(
            help="Multiplies the times that mail, weather and web take to answer; 0 adds nothing.",
            min=0,
            max=1_000_000,
        ),
    ] = 1.0,
    pace: Annotated[
        float | None,
        typer.Option(
            help="Tokens per second to which the model is slowed down for your requests; 0 does not slow "
            "it down. The default is 50 for nano, the speed of a larger model, and 0 for other models.",
            min=0,
            max=1_000_000,
        ),
    ] = None,
    page: Annotated[
        bool,
        typer.Option(
            "--page",
            help="Show what happens in a web page, too: requests, kernels, memory, drafts and claims.",
        ),
    ] = False,
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose", help="Print a log of all that was measured, as where there is no terminal."
        ),
    ] = False,
    json_file: JsonFile = None,
) -> None:
    """Run a personal assistant on a local model, plain and with agentrt, and compare.

    Exits with 1 if no tool was called, or if the two gave different answers in full precision (nano).
    """
    require_extra("demo")
    if page:
        require_extra("gateway")
    from agentrt.examples.assistant.data import workspace
    from agentrt.examples.assistant.imap import Address
    from agentrt.examples.assistant.sample_data import write_sample_data
    from agentrt.examples.assistant.services import Latencies
    from agentrt.examples.assistant.sources import Sources
    from agentrt.examples.demo.run import run_demo
    from agentrt.examples.demo.summary import conclude, introduce, introduce_briefly, summarize
    from agentrt.examples.demo.view import DemoView, LiveView, PlainView

    console = output_console(highlight=False)
    if any(map(Address.parse, data or ())):
        raise ConfigurationError(
            "the demo runs on copies of data, and copies no mail of a server. Give files and folders, or use "
            "'agentrt chat'."
        )
    paths = [Path(path) for path in data or ()]
    if paths:
        Sources(paths)  # the error comes before anything else
    if pace is None:
        pace = 50.0 if model == "nano" else 0.0
    latencies = Latencies().times(latency)
    log = verbose or not sys.stdout.isatty()
    if log:
        introduce(model, latencies, pace, console)
    else:
        introduce_briefly(pace, console)
    with contextlib.ExitStack() as outer, contextlib.ExitStack() as stack:
        if not paths:
            paths = [stack.enter_context(workspace()) / "sample"]
            write_sample_data(paths[0], dt.date.today())
        shown = outer.enter_context(_serve_page(console)) if page else None
        view: DemoView = PlainView(console)
        if not log:
            view = panes = LiveView(console, together=pace > 0)
            stack.enter_context(panes.drawn())
        result = run_demo(paths, latencies, view, model=model, pace=pace, page=shown)
        stack.close()  # what is drawn while it runs
        if log:
            summarize(result, console)
        else:
            conclude(result.comparison, console)
    if json_file is not None:
        held = f"at most {pace:g} tokens/s" if pace else "not slowed down"
        _write_report(result, json_file, _METHOD.format(model=model, pace=held, latency=latency))
    comparison = result.comparison
    if not comparison.tools_ran or (comparison.exact and comparison.differences()):
        raise typer.Exit(1)


@contextlib.contextmanager
def _serve_page(console: Console) -> Iterator[DemoPage]:
    """Serve the live page during the block; a person says when it begins, and when the page ends."""
    from agentrt.examples.demo.page import DemoPage

    page = DemoPage()
    with page.served() as (address, token):
        console.print(f"live page: {address}\ntoken for this run: {token}", markup=False, soft_wrap=True)
        asks = sys.stdout.isatty() and sys.stdin.isatty()
        if asks:
            console.input("Open the page in a browser, then press Enter to begin. ")
        yield page
        if asks:
            with contextlib.suppress(KeyboardInterrupt, EOFError):
                console.input("The page stays open. Press Enter or Ctrl-C to close it. ")


def _write_report(result: Result, path: Path, method: str) -> None:
    from agentrt.bench.common.estimates import Estimate
    from agentrt.bench.common.machine import describe_machine
    from agentrt.bench.common.report import BenchReport

    figures = {name: Estimate(value=value) for name, value in result.figures().items()}
    report = BenchReport(bench="demo", machine=describe_machine(), figures=figures, method=method)
    with write_errors(path):
        report.write(path)
