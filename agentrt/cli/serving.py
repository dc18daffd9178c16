"""What ``agentrt serve`` and ``agentrt gateway`` share: options, tokens and start-up messages."""

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

_DAY_S = 86_400

Host = Annotated[str, typer.Option(help="The address to listen on.")]
Port = Annotated[int, typer.Option(help="The port; 0 takes a free one.", min=0, max=65535)]
Uds = Annotated[
    Path | None,
    typer.Option(help="A Unix socket to listen on instead of host and port; only you can connect."),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        help="A file with a line APP TOKEN for each app. A missing file is created with a fresh token.",
        dir_okay=False,
    ),
]
NoAuth = Annotated[bool, typer.Option("--no-auth", help="Accept requests without a token.")]
Drain = Annotated[
    int,
    typer.Option(help="Seconds that requests may continue after SIGTERM or Ctrl-C.", min=0, max=_DAY_S),
]


def say(line: str) -> None:
    """Print a message to standard error."""
    print(line, file=sys.stderr, flush=True)


def exit_on_sigterm() -> None:
    """Make SIGTERM raise :class:`SystemExit` until the server installs its own handler."""
    signal.signal(signal.SIGTERM, _exit)


def choose_tokens(
    token_file: Path | None, no_auth: bool, uds: Path | None
) -> tuple[Tokens | None, str | None]:
    """Return the accepted tokens, and the token created for this run.

    The tokens are None if none is required: with ``no_auth``, or on a Unix socket. The token is None if none
    was created.

    Raises:
        BadParameter: both a token file and ``no_auth`` are given.
        ConfigurationError: the token file cannot be used.
    """
    from agentrt.runtime.http.identity import Tokens

    if token_file is not None and no_auth:
        raise typer.BadParameter("cannot be combined with --token-file", param_hint="--no-auth")
    if token_file is not None:
        return Tokens.read(token_file), None
    if no_auth or uds is not None:
        return None, None
    return Tokens.mint()


def announce(served: str, config: ListenConfig, listener: socket.socket, token: str | None) -> None:
    """Print where ``served`` can be reached, and the token created for this run, if any."""
    if config.uds is not None:
        say(f"serving {served} on the socket {config.uds}")
    else:
        host = f"[{config.host}]" if ":" in config.host else config.host
        say(f"serving {served} at http://{host}:{listener.getsockname()[1]}/v1")
    if token is not None:
        say(f"token for this run: {token}")


def say_waiting(requests: int) -> None:
    """Print that the server stops when its requests have ended."""
    say(f"waiting for {requests} request{'s' * (requests > 1)}; Ctrl-C again to stop now")


def _exit(*_: Any) -> None:
    raise SystemExit(0)
