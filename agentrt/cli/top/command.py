"""``agentrt top``: what a server does, in the terminal."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ...extras import require_extra
from ..config_file import tokens_path
from ..output import output_console

if TYPE_CHECKING:
    from .frames import Server
    from .watch import GetToken

_ADDRESS: Final = "http://127.0.0.1:8000"


def top(
    url: Annotated[
        str | None,
        typer.Option(
            help=f"The address of agentrt serve or of another live page. The default is {_ADDRESS}.",
            show_default=False,
        ),
    ] = None,
    uds: Annotated[
        Path | None,
        typer.Option(help="The Unix socket of agentrt serve, instead of --url.", show_default=False),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            help="The server's token file, whose first app's token is used. For a server on this machine the "
            "default is the file 'tokens' beside the config file, if there is one; otherwise the token is "
            "asked for where one is needed.",
            dir_okay=False,
            show_default=False,
        ),
    ] = None,
) -> None:
    """Show what a server does: requests, XPUs, KV memory, tokens a second. Ctrl-C ends it.

    If the output is no terminal, two seconds of it are shown once.
    """
    require_extra("gateway")
    from .frames import Server
    from .refusals import Token, TokenNeededError

    if url is not None and uds is not None:
        raise typer.BadParameter("give one of the two.", param_hint="--url and --uds")
    server = Server.at(url or _ADDRESS) if uds is None else Server.on(uds)
    path = token_file or tokens_path()
    stored = token_file is not None or (server.is_local and os.path.lexists(path))
    asks = token_file is None and sys.stdin.isatty()
    typed: Token | None = None

    async def get_token() -> Token | None:
        if typed is not None or not stored:
            return typed
        return await asyncio.to_thread(Token.read, path)

    while True:
        try:
            _show(server, get_token, asks=asks)
            return
        except TokenNeededError as error:
            if not asks:
                raise
            print(f"agentrt: {error}", file=sys.stderr)
            answer = typer.prompt("Token of the server's owner", hide_input=True, err=True)
            typed = Token("".join(filter(str.isprintable, answer)).strip(), "that was typed")


def _show(server: Server, get_token: GetToken, *, asks: bool) -> None:
    """Draw what the server does until the user ends it, or print it once where there is no terminal."""
    from rich.console import Console

    from .view import draw
    from .watch import sample, watch

    console = Console()
    if not sys.stdout.isatty() or console.is_dumb_terminal:
        console = output_console(color_system=None)
        with console.capture() as captured:
            console.print(draw(asyncio.run(sample(server, get_token)), str(server), whole=True))
        print("\n".join(line.rstrip() for line in captured.get().splitlines()))
        return
    signal.signal(signal.SIGTERM, _exit)  # which leaves the terminal as it was
    try:
        asyncio.run(watch(server, get_token, console, asks=asks))
    except KeyboardInterrupt:
        raise typer.Exit from None


def _exit(number: int, _: object) -> None:
    raise SystemExit(128 + number)
