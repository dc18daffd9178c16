"""Options of ``agentrt demo`` and ``agentrt chat``."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

from .model_names import complete_model

AssistantModel: TypeAlias = Annotated[
    str,
    typer.Option(
        help="A folder with an OpenVINO model, a GGUF file, a pulled name, or nano, the demonstration model.",
        autocompletion=complete_model,
    ),
]
WeatherDelay: TypeAlias = Annotated[
    float, typer.Option(help="Seconds that the weather service takes to answer.", min=0, max=60)
]
