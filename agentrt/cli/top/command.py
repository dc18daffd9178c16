"""``agentrt top``: what a server does, in the terminal."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ...errors import ConfigurationError
from ...extras import require_extra
from ..config_file import tokens_path

if TYPE_CHECKING:
    from .state import TopState

_RETRY_S: Final = 2.0


def top(
    url: Annotated[
        str, typer.Option(help="The address of agentrt serve or of another live page.")
    ] = "http://127.0.0.1:8000",
    uds: Annotated[
        Path | None, typer.Option(help="The Unix socket of agentrt serve, instead of --url.")
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            help="The server's token file, whose first token is used. By default the file 'tokens' beside "
            "the config file, if there is one; otherwise the token is asked for where one is needed.",
            dir_okay=False,
            show_default=False,
        ),
    ] = None,
) -> None:
    """Show what a server does: requests, XPUs, KV memory, tokens a second. Ctrl-C ends it.

    If the output is no terminal, it is shown once.
    """
    require_extra("gateway")
    from rich.console import Console

    from .frames import TokenNeededError

    console = Console()
    token = _token_of(token_file)
    try:
        try:
            _watch(url, uds, token, console)
        except TokenNeededError:
            if token_file is not None or not sys.stdin.isatty():
                raise
            _watch(url, uds, typer.prompt("Token of the server's owner", hide_input=True), console)
    except KeyboardInterrupt:
        raise typer.Exit from None


def _token_of(token_file: Path | None) -> str | None:
    """Return the owner's token of a file, by default of the user's own one; None if that does not exist."""
    from agentrt.runtime.http.identity import owner_token

    path = token_file or tokens_path()
    if token_file is None and not os.path.lexists(path):
        return None
    return owner_token(path)


def _watch(url: str, uds: Path | None, token: str | None, console: Any) -> None:
    """Draw frames until the user ends it; only the first one, if ``console`` is no terminal.

    A server that has answered once is waited for when it stops.
    """
    from rich.live import Live

    from .frames import open_frames
    from .state import TopState
    from .view import draw

    state, where = TopState(), str(uds or url)
    if not console.is_terminal:
        with open_frames(url, uds, token) as frames:
            state.apply(next(frames))
        console.print(draw(state, where))
        return
    with Live(console=console, screen=True, auto_refresh=False) as live:

        def show(status: str) -> None:
            live.update(draw(state, status), refresh=True)

        while True:
            try:
                _follow(lambda: open_frames(url, uds, token), state, lambda: show(f"{where}   Ctrl-C ends"))
            except ConfigurationError:
                if not state.models:
                    raise
            show(f"{where} does not answer. Trying again")
            time.sleep(_RETRY_S)


def _follow(open_them: Callable[[], Any], state: TopState, show: Callable[[], None]) -> None:
    with open_them() as frames:
        for frame in frames:
            state.apply(frame)
            show()
