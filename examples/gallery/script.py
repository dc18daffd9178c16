"""What all scripts have: the option ``--model``, and errors in one line."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from agentrt.errors import AgentRTError

Model = Annotated[
    str,
    typer.Option(
        help="A folder with an OpenVINO model, a GGUF file, a pulled model, or nano, the demonstration model."
    ),
]


def run_script(main: Callable[..., None]) -> None:
    """Run ``main``, whose parameters are the script's options and arguments. It always raises SystemExit.

    An :class:`AgentRTError`, such as that of a model that cannot be opened, is printed as one line on
    standard error, with exit code 2.
    """
    failure: BaseException
    try:
        typer.run(main)
    except* AgentRTError as errors:  # tasks that run beside each other fail as a group
        failure = errors
    while isinstance(failure, BaseExceptionGroup):
        failure = failure.exceptions[0]
    print(f"{Path(sys.argv[0]).name}: {failure}", file=sys.stderr)
    sys.exit(2)
