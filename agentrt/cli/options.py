"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

AssistantModel: TypeAlias = Annotated[
    str, typer.Option(help="A folder with an OpenVINO model, or nano for the demonstration model.")
]
WeatherDelay: TypeAlias = Annotated[
    float, typer.Option(help="Seconds that the weather service on this machine waits before it answers.")
]
