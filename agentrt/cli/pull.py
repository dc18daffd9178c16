"""``agentrt pull``: download a model by name."""

from __future__ import annotations

from typing import Annotated

import typer

from ..extras import require_extra
from .output import output_console


def pull(
    name: Annotated[
        str,
        typer.Argument(
            help="OWNER/NAME (an OpenVINO model on the Hugging Face hub), OWNER/NAME:QUANTISATION (a GGUF "
            "file), or an https address."
        ),
    ],
    sha256: Annotated[
        str | None, typer.Option(help="The digest that a file from an address must have.")
    ] = None,
    revision: Annotated[str | None, typer.Option(help="A branch, tag or commit of the repository.")] = None,
) -> None:
    """Download a model. Its name can then be given wherever a model is named."""
    require_extra("hub")
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    from agentrt.runtime.model.hub.pull import pull_model

    lines = Console(stderr=True)
    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=lines, transient=True)
    task = bar.add_task("download")

    def say(line: str) -> None:
        lines.print(line, highlight=False, markup=False, soft_wrap=True)

    def show(done: int, total: int | None) -> None:
        bar.start()  # not before: each step of a bar of the hub's library would be a line above it
        bar.update(task, completed=done, total=total)

    try:
        path = pull_model(name, sha256=sha256, revision=revision, progress=show, say=say)
    finally:
        if bar.live.is_started:
            bar.stop()
    output_console().print(f"{path}\nTry it: agentrt chat --model {name}", highlight=False, soft_wrap=True)
