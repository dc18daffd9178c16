"""The frames of a server's live page, read over HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx

from agentrt.errors import ConfigurationError

PATH: Final = "/live/events"
_SILENCE_S: Final = 60.0
"""A server sends a frame every few seconds, also when it is idle."""


class TokenNeededError(ConfigurationError):
    """The server refuses the token, or the lack of one."""


@contextmanager
def open_frames(url: str, uds: Path | None, token: str | None) -> Iterator[Iterator[dict[str, Any]]]:
    """Connect, and yield the frames as they come.

    Raises:
        TokenNeededError: the server needs another token.
        ConfigurationError: nothing answers there, or what answers has no live page.
    """
    headers = {"authorization": f"Bearer {token}"} if token else {}
    transport = None if uds is None else httpx.HTTPTransport(uds=str(uds))
    where = str(uds or url)
    try:
        with (
            httpx.Client(base_url=url, transport=transport, timeout=_SILENCE_S, trust_env=False) as client,
            client.stream("GET", PATH, headers=headers) as response,
        ):
            _check(response, where)
            yield _frames_in(response)
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        reason = str(error) or type(error).__name__
        raise ConfigurationError(
            f"no server can be watched at {where} ({reason}). Start agentrt serve, or name its address with "
            "--url."
        ) from error


def _check(response: httpx.Response, where: str) -> None:
    if response.status_code in (401, 403):
        raise TokenNeededError(
            f"the server at {where} needs the token of its owner: the one that it printed, or the first one "
            "of its token file. Name the file: --token-file."
        )
    if not response.is_success:
        raise ConfigurationError(
            f"what answers at {where} has no live page (status {response.status_code}). Name the address of "
            "agentrt serve: --url."
        )


def _frames_in(response: httpx.Response) -> Iterator[dict[str, Any]]:
    for line in response.iter_lines():
        if line.startswith('data: {"n"'):
            yield json.loads(line.removeprefix("data: "))
