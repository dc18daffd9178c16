"""``agentrt top``: what a server does, in the terminal."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ..errors import ConfigurationError
from ..extras import require_extra
from .config_file import tokens_path
from .output import output_console

if TYPE_CHECKING:
    from rich.console import Console

    from .live_frames import Frame, Server

_ADDRESS: Final = "http://127.0.0.1:8000"
_SAMPLE_S: Final = 2.0
_RETRY_S: Final = 2.0
_SPAN_S: Final = 10.0
"""The most seconds over which rates are measured."""


def top(
    url: Annotated[
        str | None,
        typer.Option(
            help=f"The address of agentrt serve or of another live page. The default is {_ADDRESS}."
        ),
    ] = None,
    uds: Annotated[
        Path | None,
        typer.Option(help="The Unix socket of agentrt serve, instead of --url."),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            help="The server's token file, whose first app's token is used. For a server on this machine the "
            "default is the file 'tokens' beside the config file, if there is one; otherwise the token is "
            "asked for where one is needed.",
            dir_okay=False,
        ),
    ] = None,
) -> None:
    """Show what a server does: requests, XPUs, KV memory, tokens a second. Ctrl-C ends it.

    If the output is no terminal, two seconds of it are shown once.
    """
    require_extra("gateway")
    from rich.console import Console

    from .live_frames import TokenNeededError, server_at

    if url is not None and uds is not None:
        raise typer.BadParameter("give one of the two.", param_hint="--url and --uds")
    server = server_at(url or _ADDRESS, uds)
    if token_file is not None:
        server.token_file = token_file
    elif server.is_local and os.path.lexists(tokens_path()):
        server.token_file = tokens_path()
    console = Console()
    once = not sys.stdout.isatty() or console.is_dumb_terminal
    while True:
        try:
            _print_once(server) if once else _watch(server, console)
            return
        except TokenNeededError as error:
            if token_file is not None or not sys.stdin.isatty():
                raise
            print(f"agentrt: {error}", file=sys.stderr)
            answer = typer.prompt("Token of the server's owner", hide_input=True, err=True)
            server.typed = "".join(filter(str.isprintable, answer)).strip()


def _print_once(server: Server) -> None:
    from .top_view import draw

    frames = asyncio.run(_sample(server))
    console = output_console(color_system=None)
    with console.capture() as captured:
        console.print(draw(frames, f"{server}"))
    print("\n".join(line.rstrip() for line in captured.get().splitlines()))


async def _sample(server: Server) -> deque[Frame]:
    """Return the frames of two seconds."""
    from .live_frames import open_frames

    frames: deque[Frame] = deque()
    async with open_frames(server) as stream:
        with suppress(TimeoutError):
            async with asyncio.timeout(None) as limit:
                async for frame in stream:
                    if not frames:
                        limit.reschedule(asyncio.get_running_loop().time() + _SAMPLE_S)
                    _add(frames, frame)
    return frames


def _watch(server: Server, console: Console) -> None:
    """Draw what the server does until Ctrl-C or SIGTERM."""
    signal.signal(signal.SIGTERM, _exit)  # which leaves the terminal as it was
    try:
        asyncio.run(_follow(server, console))
    except KeyboardInterrupt:
        raise typer.Exit from None


async def _follow(server: Server, console: Console) -> None:
    """Draw each frame. A server that has sent one is waited for when it ends.

    Raises:
        TokenNeededError: the server needs another token, also one that it had taken.
        ConfigurationError: it could not be watched from the beginning.
    """
    from rich.live import Live

    from .live_frames import TokenNeededError, open_frames
    from .top_view import draw

    frames: deque[Frame] = deque()
    with Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            try:
                async with open_frames(server) as stream:
                    connected = False
                    async for frame in stream:
                        if not connected:  # what was before it is no part of its rates
                            frames.clear()
                        connected = True
                        _add(frames, frame)
                        live.update(draw(frames, f"{server}   Ctrl-C ends"), refresh=True)
            except ConfigurationError as error:
                if not frames or isinstance(error, TokenNeededError):
                    raise
                status = f"{error} Trying again; what follows is old.   Ctrl-C ends"
                live.update(draw(frames, status), refresh=True)
            await asyncio.sleep(_RETRY_S)


def _add(frames: deque[Frame], frame: Frame) -> None:
    """Add a frame, and forget those before a gap and those that are older than the span of rates."""
    if frames and frame["n"] != frames[-1]["n"] + 1:
        frames.clear()
    frames.append(frame)
    while frames[0]["t"] < frame["t"] - _SPAN_S:
        frames.popleft()


def _exit(number: int, _: object) -> None:
    raise SystemExit(128 + number)
