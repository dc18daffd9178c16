"""``agentrt demo``: the personal assistant with and without speculation, side by side."""

from __future__ import annotations

import contextlib
import datetime as dt
from pathlib import Path
from typing import Annotated

import typer

from ..extras import require_extra
from .assistant_options import AssistantModel, WeatherDelay


def demo(
    data: Annotated[
        Path | None,
        typer.Option(
            help="A folder with notes.db, calendar.ics, mail.mbox and files/. It is copied, not changed. "
            "Without it, sample data is used.",
            exists=True,
            file_okay=False,
        ),
    ] = None,
    model: AssistantModel = "nano",
    weather_delay: WeatherDelay = 0.5,
    pace: Annotated[
        float | None,
        typer.Option(
            help="Tokens per second to which the model is slowed down for your requests; 0 does not slow "
            "it down. The default is 50 for nano, the speed of a larger model, and 0 for other models.",
            min=0.0,
        ),
    ] = None,
    live: Annotated[bool, typer.Option(help="Draw a live view if the output is a terminal.")] = True,
) -> None:
    """Run a personal assistant on a local model, with and without speculation, and compare.

    Exits with 1 if no tool was called, or if the two gave different answers in full precision (nano).
    """
    require_extra("demo")
    from rich.console import Console

    from agentrt.examples.assistant.data import require_parts, workspace
    from agentrt.examples.assistant.sample_data import write_sample_data
    from agentrt.examples.assistant.view import LiveView, PlainView, View
    from agentrt.examples.demo.comparison import compare
    from agentrt.examples.demo.summary import introduce, summarize

    console = Console(highlight=False)
    if data is not None:
        require_parts(data)
    if pace is None:
        pace = 50.0 if model == "nano" else 0.0
    introduce(model, weather_delay, pace, console)
    with contextlib.ExitStack() as stack:
        if data is None:
            data = stack.enter_context(workspace()) / "sample"
            write_sample_data(data, dt.date.today())
        view: View = PlainView(console)
        if live and console.is_terminal:
            live_view = LiveView(console)
            stack.enter_context(live_view.live)
            view = live_view
        comparison = compare(data, weather_delay, view, model=model, pace=pace)
    summarize(comparison, console)
    if not comparison.tools_ran or (comparison.exact and comparison.differences()):
        raise typer.Exit(1)
