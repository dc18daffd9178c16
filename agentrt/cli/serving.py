"""What ``agentrt serve`` and ``agentrt gateway`` share: options, tokens and start-up messages."""

from __future__ import annotations

import functools
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..otel.exporting import check_variables, exporting
from .config_file import tokens_path
from .options import origins
from .output import say

if TYPE_CHECKING:
    from agentrt.runtime.serving.http.config import ListenConfig
    from agentrt.runtime.serving.http.identity import Tokens

_DAY_S = 86_400

_of_address = functools.partial(typer.Option, rich_help_panel="Address and access")

Host = Annotated[str, _of_address(help="The address to listen on.")]
Port = Annotated[int, _of_address(help="The port; 0 takes a free one.", min=0, max=65535)]
Uds = Annotated[
    Path | None,
    _of_address(help="A Unix socket to listen on instead of host and port; only you can connect."),
]
TokenFile = Annotated[
    Path | None,
    _of_address(
        help="A file with a line APP TOKEN for each app. A missing file is created with a fresh token. By "
        "default the file 'tokens' beside the config file, if there is one.",
        dir_okay=False,
    ),
]
CorsOrigins = Annotated[
    list[str] | None,
    _of_address(
        "--cors-origin",
        help="An origin such as https://chat.example whose web pages may send requests, with a token like "
        "other programs. May be given several times.",
        callback=origins,
    ),
]
NoAuth = Annotated[bool, _of_address("--no-auth", help="Accept requests without a token.")]
Drain = Annotated[
    int,
    typer.Option(help="Seconds that requests may continue after SIGTERM or Ctrl-C.", min=0, max=_DAY_S),
]


@dataclass(frozen=True)
class Access:
    """Where a token of a server is: in a file, or here, if it was created for this run."""

    token_file: Path | None = None
    token: str | None = field(default=None, repr=False)

    def __str__(self) -> str:
        """Return the line that tells the user."""
        if self.token is None:
            return f"tokens: those of {self.token_file}"
        return f"token for this run: {self.token}"


def begin_serving() -> None:
    """Prepare this process, before it imports FastAPI, which imports OpenTelemetry, or opens anything.

    SIGTERM raises :class:`SystemExit` until the server installs its own handler.

    Raises:
        ConfigurationError: one of the ``OTEL_*`` variables cannot be used.
    """
    check_variables()
    from agentrt.runtime.serving.http.run import share_arenas

    signal.signal(signal.SIGTERM, _exit)
    share_arenas()


def choose_tokens(
    token_file: Path | None, no_auth: bool, uds: Path | None
) -> tuple[Tokens | None, Access | None]:
    """Return the accepted tokens, and where they are, or None.

    The tokens are None if none is required: with ``no_auth``, or on a Unix socket without a token file.
    Without any of the three they are those of the user's own token file, or one that is created for this run.

    Raises:
        ConfigurationError: the token file cannot be used.
    """
    from agentrt.runtime.serving.http.identity import Tokens

    if token_file is None and (no_auth or uds is not None):
        return None, None
    if token_file is None and os.path.lexists(tokens_path()):
        token_file = tokens_path()
    if token_file is not None:
        return Tokens.read(token_file), Access(token_file)
    tokens, created = Tokens.mint()
    return tokens, Access(token=created)


@contextmanager
def serving(bound: AbstractContextManager[socket.socket]) -> Iterator[socket.socket]:
    """Listen in the block, and export spans and metrics if the user has named an exporter; say so."""
    with exporting("agentrt") as signals, bound as listener:
        if signals:
            say(f"exporting {' and '.join(signals)} as the OTEL_* variables say")
        yield listener
    say("stopped")


def origin_of(config: ListenConfig, listener: socket.socket) -> str:
    """Return the origin of a server's URLs; empty if it listens on a Unix socket."""
    host = f"[{config.host}]" if ":" in config.host else config.host
    return f"http://{host}:{listener.getsockname()[1]}" if config.uds is None else ""


def announce(
    served: str, config: ListenConfig, listener: socket.socket, access: Access | None, *, page: bool
) -> None:
    """Print where ``served`` can be reached, and the line about its tokens, if any.

    ``page`` says that it has a live page, which browsers cannot reach on a Unix socket.
    """
    origin = origin_of(config, listener)
    say(f"serving {served} at {origin}/v1" if origin else f"serving {served} on the socket {config.uds}")
    if access is not None:
        say(str(access))
    if page and origin:
        say(f"live page: {origin}/")


def say_waiting(requests: int) -> None:
    """Print that the server stops when its requests have ended."""
    say(f"waiting for {requests} request{'s' * (requests > 1)}; Ctrl-C again to stop now")


def _exit(*_: Any) -> None:
    raise SystemExit(0)
