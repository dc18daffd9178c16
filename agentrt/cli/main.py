"""The command line ``agentrt``, one module per command.

A command imports what it needs when it runs, so that ``agentrt --help`` answers at once and works with the
``cli`` extra alone.
"""

from __future__ import annotations

import typer

from .bench import bench
from .chat import chat
from .demo import demo
from .doctor import doctor
from .gateway import gateway
from .profile import profile
from .serve import serve

app = typer.Typer(
    name="agentrt",
    help="Faster, private AI agents: speculative tools for those you have, a local runtime under them.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(demo)
app.command()(chat)
app.command()(serve)
app.command()(gateway)
app.command()(doctor)
app.command()(profile)
app.command()(bench)
