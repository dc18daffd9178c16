"""The command line ``agentrt``.

Each command is a module of this package. It imports what it needs when it runs, so that ``agentrt --help``
answers at once and works with the ``cli`` extra alone.
"""

from __future__ import annotations

from typing import Annotated

import typer

from .bench import bench
from .chat import chat
from .demo import demo
from .doctor import doctor
from .gateway import gateway
from .models import models
from .profile import profile
from .pull import pull
from .serve import serve

app = typer.Typer(name="agentrt", no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


def _print_version(wanted: bool) -> None:
    if not wanted:
        return
    from .. import __version__

    print(f"agentrt {__version__}")
    raise typer.Exit


@app.callback()
def agentrt(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    """Faster, private AI agents: speculative tool calls for existing agents, and a local LLM runtime."""


app.command()(demo)
app.command()(chat)
app.command()(serve)
app.command()(gateway)
app.command()(doctor)
app.command()(profile)
app.command()(models)
app.command()(pull)
app.command()(bench)
