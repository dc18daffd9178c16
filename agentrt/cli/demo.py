"""``agentrt demo``: the personal assistant, plain and speculative, side by side."""

from __future__ import annotations

import contextlib
import datetime as dt
from pathlib import Path
from typing import Annotated

import typer

from ..extras import require_extra
from .options import AssistantModel, WeatherDelay


def demo(
    data: Annotated[
        Path | None,
        typer.Option(
            help="Your own folder with notes.db, calendar.ics, mail.mbox and files/; it is copied, not "
            "changed. Without it, made-up sample data is used.",
            exists=True,
            file_okay=False,
        ),
    ] = None,
    model: AssistantModel = "nano",
    weather_delay: WeatherDelay = 0.5,
    pace: Annotated[
        float | None,
        typer.Option(
            help="Tokens per second that the model is held to for your requests; 0 lets it run free. "
            "By default 50 for nano, as a larger model would be, and 0 for others.",
            min=0.0,
        ),
    ] = None,
    live: Annotated[bool, typer.Option(help="Draw a live picture if this is a terminal.")] = True,
) -> None:
    """Watch a personal assistant on a local model answer questions, with and without speculation."""
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
            picture = LiveView(console)
            stack.enter_context(picture.live)
            view = picture
        comparison = compare(data, weather_delay, view, model=model, pace=pace)
    summarize(comparison, console)
    if comparison.differences():
        raise typer.Exit(1)
