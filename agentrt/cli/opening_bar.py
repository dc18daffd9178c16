"""A progress bar on the terminal while a model opens."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentrt.runtime.model.opening import OnOpeningStep, OpeningStep


@contextmanager
def opening_bar() -> Iterator[OnOpeningStep]:
    """Show the steps that the yielded function is called with, on standard error, until the block ends.

    Shows nothing where standard error is no terminal.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("opening", total=None)

        def show(step: OpeningStep) -> None:
            bar.update(
                task,
                description=step.name,
                completed=step.share or 0,
                total=None if step.share is None else 1,
            )

        yield show
