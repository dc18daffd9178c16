"""The command line ``agentrt``.

Each command is a module of this package. It imports what it needs when it runs, so that ``agentrt --help``
answers at once and works with the ``cli`` extra alone.
"""

from __future__ import annotations

from typing import Annotated

import typer

from .bench import bench
from .chat.command import chat
from .command import Command, ConfiguredCommand
from .config import config
from .contexts import contexts
from .demo import demo
from .doctor import doctor
from .gateway import gateway
from .models import models, pull
from .profile import profile
from .serve import ServeCommand, serve
from .timeline import timeline

app = typer.Typer(name="agentrt", no_args_is_help=True, pretty_exceptions_enable=False)


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


_TRY, _SERVE, _MODELS, _MEASURE = "Try it", "Serve", "Models", "Measure"

app.command(rich_help_panel=_TRY, cls=Command)(demo)
app.command(rich_help_panel=_TRY, cls=ConfiguredCommand)(chat)
app.command(rich_help_panel=_SERVE, cls=ServeCommand)(serve)
app.command(rich_help_panel=_SERVE, cls=ConfiguredCommand)(gateway)
app.command(rich_help_panel=_SERVE, cls=Command)(contexts)
app.command(rich_help_panel=_SERVE, cls=Command)(config)
app.command(rich_help_panel=_MODELS, cls=Command)(models)
app.command(rich_help_panel=_MODELS, cls=Command)(pull)
app.command(rich_help_panel=_MEASURE, cls=Command)(doctor)
app.command(rich_help_panel=_MEASURE, cls=Command)(profile)
app.command(rich_help_panel=_MEASURE, cls=Command)(bench)
app.command(rich_help_panel=_MEASURE, cls=Command)(timeline)
