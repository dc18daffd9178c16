"""The option that all scripts of the gallery have."""

from __future__ import annotations

from typing import Annotated

import typer

Model = Annotated[
    str,
    typer.Option(
        help="A folder with an OpenVINO model, a GGUF file, a pulled model, or nano, the demonstration model."
    ),
]
