"""The option ``--json`` of the commands that write a report."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from ..errors import ConfigurationError


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
