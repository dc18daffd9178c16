"""The frames of a server's live page, read over HTTP, and what a server answers in place of them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

import httpx

from ..errors import ConfigurationError
from ..terminal_text import printable

Frame: TypeAlias = Mapping[str, Any]
"""A frame as ``docs/live-page.md`` describes it."""

_TIMEOUT: Final = httpx.Timeout(20.0, connect=10.0)
"""A server sends a frame every five seconds, also when it is idle."""
_MAX_BYTES: Final = 16_384
_MAX_CHARACTERS: Final = 500


class TokenNeededError(ConfigurationError):
    """The server refuses the token, or the lack of one."""


@dataclass(slots=True)
class Server:
    """Where a server is, at an address or on a Unix socket, and where its owner's token is from."""

    root: httpx.URL
    uds: Path | None = None
    token_file: Path | None = None
    typed: str | None = field(default=None, repr=False)

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

    async def token(self) -> str | None:
        """Return the token that was typed, or the owner's in the token file; None if there is neither.

        Raises:
            ConfigurationError: there is no such file, or it cannot be used.
        """
        from agentrt.runtime.serving.http.identity import owner_token

        if self.typed is not None or self.token_file is None:
            return self.typed
        return await asyncio.to_thread(owner_token, self.token_file)


def server_at(address: str, uds: Path | None) -> Server:
    """Return the server at an address, or on the Unix socket if there is one.

    Raises:
        ConfigurationError: it is not the plain address of an HTTP server.
    """
    from agentrt.runtime.serving.http.address import server_root

    if uds is not None:
        return Server(httpx.URL("http://localhost"), uds)
    return Server(server_root(address, "--url", "a server", "the token is given by --token-file"))


@asynccontextmanager
async def open_frames(server: Server) -> AsyncIterator[AsyncIterator[Frame]]:
    """Connect, and yield the frames as they come.

    Raises:
        TokenNeededError: the server needs another token.
        ConfigurationError: nothing answers there, what answers has no live page, or the server ends.
    """
    from agentrt.runtime.serving.http.address import NO_SOCKET, NOTHING_LISTENS, why_unreachable

    token = await server.token()
    headers = {} if token is None else {b"authorization": f"Bearer {token}".encode()}
    transport = None if server.uds is None else httpx.AsyncHTTPTransport(uds=str(server.uds))
    try:
        async with (
            httpx.AsyncClient(
                base_url=server.root, transport=transport, timeout=_TIMEOUT, trust_env=False
            ) as client,
            client.stream("GET", "/live/events", headers=headers) as response,
        ):
            await _check_answer(response, server)
            yield _frames_in(response, server)
    except httpx.HTTPError as error:
        why = why_unreachable(error, server.uds)
        begin = "Start agentrt serve there" if why in (NOTHING_LISTENS, NO_SOCKET) else "Try again"
        raise ConfigurationError(
            f"{server} cannot be watched: {why}. {begin}, or name with {server.option} where agentrt serve "
            "is: it prints that."
        ) from error


async def _frames_in(response: httpx.Response, server: Server) -> AsyncIterator[Frame]:
    async for line in response.aiter_lines():
        if not line.startswith('data: {"n"'):
            continue
        try:
            frame: Frame = json.loads(line.removeprefix("data: "))
            known = "t" in frame and all("counts" in model for model in frame["models"])
        except (ValueError, LookupError, TypeError):
            known = False
        if not known:
            raise ConfigurationError(
                f"{server} sends events that this version of agentrt does not know. Run agentrt top of the "
                "server's version."
            )
        yield frame
    raise ConfigurationError(f"{server} has ended. Start it again, and agentrt top after it.")


async def _check_answer(response: httpx.Response, server: Server) -> None:
    """Raise :class:`ConfigurationError` unless a stream of events begins."""
    if response.is_success and "text/event-stream" in response.headers.get("content-type", ""):
        return
    reason = await _said_in(response)
    if response.status_code not in (401, 403):
        raise ConfigurationError(
            f"what answers at {server} has no live page (status {response.status_code}{reason}). Name the "
            f"address of agentrt serve, not that of agentrt gateway or of another server: {server.option}."
        )
    problem = f"{server} needs the token of its owner, and none was sent"
    if server.typed is not None or server.token_file is not None:
        source = f"of {server.token_file}" if server.typed is None else "that was typed"
        problem = f"{server} refuses the token {source}{reason}"
    raise TokenNeededError(
        f"{problem}. Name the server's token file with --token-file: its first app's token is the owner's. A "
        "token that the server has printed is typed: without that option, agentrt top asks for it in a "
        "terminal."
    )


async def _said_in(response: httpx.Response) -> str:
    """Return ": " and the message of an error in OpenAI's form; nothing where it has another form."""
    body = b""
    async for piece in response.aiter_bytes():
        body += piece
        if len(body) > _MAX_BYTES:
            break
    try:
        return f": {printable(str(json.loads(body)['error']['message']))[:_MAX_CHARACTERS].rstrip('.')}"
    except (ValueError, LookupError, TypeError):
        return ""
