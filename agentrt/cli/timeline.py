"""``agentrt timeline``: a saved report or recording as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import ConfigurationError
from .output import write_errors

if TYPE_CHECKING:
    from ..reports import Timeline


def timeline(
    file: Annotated[
        Path,
        typer.Argument(help="What save() of a report or of a recording wrote.", exists=True, dir_okay=False),
    ],
    plain: Annotated[
        Path | None,
        typer.Option(help="The run without speculation, drawn above.", exists=True, dir_okay=False),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The SVG file; without it, standard output.", dir_okay=False)
    ] = None,
) -> None:
    """Draw where the seconds of a run went: the model, its tools, and speculation."""
    drawn = read_timeline(file, "speculating" if plain else "")
    if plain is not None:
        drawn = read_timeline(plain, "plain").above(drawn)
    if out is None:
        typer.echo(drawn.svg(), nl=False)
        return
    with write_errors(out, "--out"):
        drawn.save(out)


def read_timeline(path: Path, title: str) -> Timeline:
    """Return the timeline of a file.

    Raises:
        ConfigurationError: it is neither a report nor a recording.
        InvalidRequestError: it is a recording without times.
    """
    from pydantic import TypeAdapter, ValidationError

    from ..reports import Recording, SpeculationReport

    if not path.is_file():
        raise ConfigurationError(f"{path} is no regular file. Name a file that save() has written.")
    kinds = TypeAdapter[Recording | SpeculationReport](Recording | SpeculationReport)
    try:
        saved = kinds.validate_json(path.read_bytes())
    except ValidationError:
        saved = SpeculationReport()
    if "turns" not in saved.model_fields_set:
        raise ConfigurationError(
            f"{path} is neither a report nor a recording. Name a file that save() of one has written."
        )
    return saved.timeline(title)
