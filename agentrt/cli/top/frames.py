"""The frames of a server's live page, read over HTTP."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx

from ...errors import ConfigurationError
from .refusals import Token, check_answer
from .state import Frame

_PATH: Final = "/live/events"
_FIRST: Final = 'data: {"n"'
_CONNECT_S: Final = 10.0
_SILENCE_S: Final = 20.0
"""A server sends a frame every five seconds, also when it is idle."""


class NotWatchableError(ConfigurationError):
    """The server cannot be watched, or no longer."""

    def __init__(self, problem: str, advice: str) -> None:
        """``problem`` is a main clause, and ``advice`` a sentence."""
        super().__init__(f"{problem}. {advice}")
        self.problem = problem


@dataclass(frozen=True, slots=True)
class Server:
    """Where a server is: at an address, or on a Unix socket."""

    root: httpx.URL
    uds: Path | None = None

    @classmethod
    def at(cls, address: str) -> Server:
        """Return the server at an address.

        Raises:
            ConfigurationError: it is not the plain address of an HTTP server.
        """
        from agentrt.runtime.serving.http.address import server_root

        return cls(server_root(address, "--url", "a server", "the token is given by --token-file"))

    @classmethod
    def on(cls, uds: Path) -> Server:
        """Return the server on a Unix socket."""
        return cls(httpx.URL("http://localhost"), uds)

    def __str__(self) -> str:
        """Return the address, or the path of the socket."""
        return str(self.uds or self.root).rstrip("/")

    @property
    def is_local(self) -> bool:
        """Whether it is on this machine."""
        from agentrt.runtime.serving.http.config import ListenConfig

        return self.uds is not None or ListenConfig(host=self.root.host).loopback

    @property
    def option(self) -> str:
        """The option by which it is named."""
        return "--uds" if self.uds else "--url"


@asynccontextmanager
async def open_frames(server: Server, token: Token | None) -> AsyncIterator[AsyncIterator[Frame]]:
    """Connect, and yield the frames as they come.

    Raises:
        TokenNeededError: the server needs another token.
        NotWatchableError: nothing answers there, what answers has no live page, or the server ends.
    """
    from agentrt.runtime.serving.http.address import NO_SOCKET, NOTHING_LISTENS, why_unreachable

    headers = {} if token is None else {b"authorization": f"Bearer {token.text}".encode()}
    transport = None if server.uds is None else httpx.AsyncHTTPTransport(uds=str(server.uds))
    timeout = httpx.Timeout(_SILENCE_S, connect=_CONNECT_S)
    try:
        async with (
            httpx.AsyncClient(
                base_url=server.root, transport=transport, timeout=timeout, trust_env=False
            ) as client,
            client.stream("GET", _PATH, headers=headers) as response,
        ):
            await check_answer(response, f"{server}", server.option, token)
            yield _frames_in(response, server)
    except httpx.HTTPError as error:
        why = why_unreachable(error, server.uds)
        begin = "Start agentrt serve there" if why in (NOTHING_LISTENS, NO_SOCKET) else "Try again"
        raise NotWatchableError(
            f"{server} cannot be watched: {why}",
            f"{begin}, or name with {server.option} where agentrt serve is: it prints that.",
        ) from error


async def _frames_in(response: httpx.Response, server: Server) -> AsyncIterator[Frame]:
    async for line in response.aiter_lines():
        if not line.startswith(_FIRST):
            continue
        try:
            frame: Frame = json.loads(line.removeprefix("data: "))
            known = "t" in frame and all("counts" in model for model in frame["models"])
        except (ValueError, LookupError, TypeError):
            known = False
        if not known:
            raise NotWatchableError(
                f"{server} sends events that this version of agentrt does not know",
                "Run agentrt top of the server's version.",
            )
        yield frame
    raise NotWatchableError(f"{server} has ended", "Start it again, and agentrt top after it.")
