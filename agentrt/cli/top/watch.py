"""Follows a server: drawn in a terminal for as long as the user wants, or once from a short sample."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, TypeAlias

from rich.console import Console, RenderableType
from rich.live import Live
from rich.text import Text

from ...errors import ConfigurationError
from .frames import NotWatchableError, Server, open_frames
from .refusals import Token, TokenNeededError
from .state import Frame, TopState
from .view import draw

GetToken: TypeAlias = Callable[[], Awaitable[Token | None]]

SAMPLE_S: Final = 2.0
_RETRY_S: Final = 2.0
_REDRAW_S: Final = 0.25
"""After this time the picture is drawn anew where the size of the terminal or the time has changed it."""


async def sample(server: Server, get_token: GetToken) -> TopState:
    """Return what two seconds tell of a server.

    Raises:
        TokenNeededError: the server needs another token.
        ConfigurationError: it cannot be watched.
    """
    state = TopState()
    loop = asyncio.get_running_loop()
    async with open_frames(server, await get_token()) as frames:
        with suppress(TimeoutError):
            async with asyncio.timeout(None) as limit:
                async for frame in frames:
                    if limit.when() is None:
                        limit.reschedule(loop.time() + SAMPLE_S)
                    state.apply(frame)
    state.note_silence(SAMPLE_S)
    return state


async def watch(server: Server, get_token: GetToken, console: Console, *, asks: bool) -> None:
    """Draw what a server does, until this is cancelled. One that has sent frames is waited for when it ends.

    A token that the server does not take any more is read again, or ``asks`` for another one.

    Raises:
        TokenNeededError: the server needs another token; later only if ``asks``.
        ConfigurationError: it cannot be watched, from the beginning.
    """
    picture = _Picture(server)
    following = asyncio.create_task(_follow(server, get_token, picture, asks=asks))
    following.add_done_callback(lambda _: picture.changed.set())
    try:
        with Live(console=console, screen=True, auto_refresh=False) as live:
            drawn = None
            while not following.done():
                seen = (picture.frames, picture.status(), console.size)
                if seen != drawn:
                    live.update(picture.draw(), refresh=True)
                    drawn = seen
                with suppress(TimeoutError):
                    await asyncio.wait_for(picture.changed.wait(), _REDRAW_S)
                picture.changed.clear()
    finally:
        following.cancel()
        await asyncio.wait([following])
    following.result()


async def _follow(server: Server, get_token: GetToken, picture: _Picture, *, asks: bool) -> None:
    while True:
        try:
            async with open_frames(server, await get_token()) as frames:
                picture.begin()
                async for frame in frames:
                    picture.add(frame)
        except ConfigurationError as error:
            if not picture.frames or (asks and isinstance(error, TokenNeededError)):
                raise
            picture.lose(error.problem if isinstance(error, NotWatchableError) else str(error))
        await asyncio.sleep(_RETRY_S)


class _Picture:
    """What is drawn, and what has happened to the connection."""

    def __init__(self, server: Server) -> None:
        self.changed = asyncio.Event()
        self.frames = 0
        self._server = server
        self._state = TopState()
        self._newest = TopState()
        """The state of the present connection, shown from its first frame on."""
        self._received = time.monotonic()
        self._lost = ""
        self._again = ""

    def begin(self) -> None:
        """Note that a connection begins: what was before it is no part of its rates."""
        self._newest = TopState()

    def add(self, frame: Frame) -> None:
        """Add a frame of the present connection."""
        if self._lost:
            self._lost, self._again = "", f"connected again at {time.strftime('%H:%M:%S')}   "
        self._state = self._newest
        self._state.apply(frame)
        self.frames += 1
        self._received = time.monotonic()
        self.changed.set()

    def lose(self, problem: str) -> None:
        """Note that nothing comes, and why."""
        self._lost = problem.rstrip(".")
        self.changed.set()

    def status(self) -> str:
        """Return the first line."""
        if not self.frames:
            return f"connecting to {self._server}   Ctrl-C ends"
        if not self._lost:
            return f"{self._server}   {self._again}Ctrl-C ends"
        age = time.monotonic() - self._received
        return f"{self._lost}. Trying again; what follows is {age:.0f} s old   Ctrl-C ends"

    def draw(self) -> RenderableType:
        """Return the picture."""
        return draw(self._state, self.status()) if self.frames else Text(self.status())
