"""What ``agentrt serve`` and ``agentrt gateway`` have in common: where to listen, and whom to serve."""

from __future__ import annotations

import signal
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from agentrt.runtime.http.config import ListenConfig
    from agentrt.runtime.http.identity import Tokens

Host = Annotated[str, typer.Option(help="The address to listen on.")]
Port = Annotated[int, typer.Option(help="The port; 0 takes a free one.", min=0, max=65535)]
Uds = Annotated[Path | None, typer.Option(help="Listen on this Unix socket instead; only you may connect.")]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        help="Lines of APP TOKEN: who may ask. Written with a fresh token if it is not there.", dir_okay=False
    ),
]
NoAuth = Annotated[bool, typer.Option("--no-auth", help="Ask for no token.")]
Drain = Annotated[int, typer.Option(help="Seconds that requests may go on after SIGTERM or Ctrl-C.", min=0)]


def say(line: str) -> None:
    """Tell the person who started the server."""
    print(line, file=sys.stderr, flush=True)


def leave_on_sigterm() -> None:
    """Until the server takes over: end at once, but in order."""
    signal.signal(signal.SIGTERM, _leave)


def choose_tokens(
    token_file: Path | None, no_auth: bool, uds: Path | None
) -> tuple[Tokens | None, str | None]:
    """Who may ask, None for everyone who can connect; and the token that was made for this run, if one was.

    Raises:
        BadParameter: both a file of tokens and none were asked for.
        ConfigurationError: the file is not what it should be.
    """
    from agentrt.runtime.http.identity import Tokens

    if token_file is not None and no_auth:
        raise typer.BadParameter("give either a token file or none", param_hint="--no-auth")
    if token_file is not None:
        return Tokens.read(token_file), None
    if no_auth or uds is not None:
        return None, None
    return Tokens.mint()


def announce(what: str, config: ListenConfig, listener: socket.socket, minted: str | None) -> None:
    """Say where ``what`` is served, and the token for it if nobody knows it yet."""
    if config.uds is not None:
        say(f"serving {what} on the socket {config.uds}")
    else:
        shown = f"[{config.host}]" if ":" in config.host else config.host
        say(f"serving {what} at http://{shown}:{listener.getsockname()[1]}/v1")
    if minted is not None:
        say(f"token for this run: {minted}")


def _leave(*_: Any) -> None:
    raise SystemExit(0)
