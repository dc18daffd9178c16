"""What commands print and write: results, progress, reports."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TextIO

import typer

from ..errors import ConfigurationError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from agentrt.runtime.model.opening import OnOpeningStep, OpeningStep

_WIDE: Final = 10_000  # columns


def output_console(**settings: Any) -> Console:
    """Return a console on standard output, with more ``settings`` of rich's.

    Without a terminal no line is wrapped or cut, whatever ``COLUMNS`` says: programs read them.
    """
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else _WIDE, **settings)


def table_of(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """Return a table as the console prints it."""
    from rich.table import Table

    table = Table(*columns, title=title, title_justify="left")
    for row in rows:
        table.add_row(*row)
    return table


def size_text(size: int) -> str:
    """Return a number of bytes as users read it."""
    for factor, unit in ((1e9, "GB"), (1e6, "MB")):
        if size >= factor:
            return f"{size / factor:.1f} {unit}"
    return f"{size / 1e3:.1f} kB"


def say(line: str) -> None:
    """Print a message to standard error."""
    print(line, file=sys.stderr, flush=True)


def is_terminal(file: TextIO | None) -> bool:
    """Whether ``file`` is a terminal; a closed one is None."""
    return file is not None and file.isatty()


@contextmanager
def opening_bar() -> Iterator[OnOpeningStep]:
    """Show the steps of opening a model, with which the yielded function is called, on standard error.

    Shows nothing where standard error is no terminal.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("opening", total=None)

        def show(step: OpeningStep) -> None:
            total = None if step.share is None else 1
            bar.update(task, description=step.name, completed=step.share or 0, total=total)

        yield show


def _check_folder(path: Path | None) -> Path | None:
    """Refuse a file in a missing folder before the work begins."""
    if path is not None and not path.parent.is_dir():
        raise typer.BadParameter(f"there is no folder {path.parent}. Create it, or choose another one.")
    return path


JsonFile = Annotated[
    Path | None,
    typer.Option("--json", help="Write the report to this file.", dir_okay=False, callback=_check_folder),
]


@contextmanager
def write_errors(path: Path, option: str = "--json") -> Iterator[None]:
    """Explain an :class:`OSError` of the block as a failure to write ``path``, the value of ``option``.

    Raises:
        ConfigurationError: the file cannot be written.
    """
    try:
        yield
    except OSError as error:
        raise ConfigurationError(f"cannot write {path} ({error}). Choose another {option}.") from error
