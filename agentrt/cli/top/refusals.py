"""What a server answers in place of its frames, and what to do then."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import httpx

from ...errors import ConfigurationError
from ...terminal_text import printable

_MAX_BYTES: Final = 16_384
_MAX_CHARACTERS: Final = 500
_TAKEN_FROM: Final = (
    "Name the server's token file with --token-file; a token that the server has printed is typed: without "
    "that option, agentrt top asks for it in a terminal."
)


class TokenNeededError(ConfigurationError):
    """The server refuses the token, or the lack of one."""


@dataclass(frozen=True, slots=True)
class Token:
    """A token, and where it is from: "of PATH" or "that was typed"."""

    text: str = field(repr=False)
    source: str

    @classmethod
    def read(cls, path: Path) -> Token:
        """Return the owner's token of a token file.

        Raises:
            ConfigurationError: there is no such file, or it cannot be used.
        """
        from agentrt.runtime.serving.http.identity import owner_token

        return cls(owner_token(path), f"of {path}")


async def check_answer(response: httpx.Response, server: str, option: str, token: Token | None) -> None:
    """Check that a stream of events begins; ``option`` names the ``server``.

    Raises:
        TokenNeededError: the server needs another token than ``token``.
        ConfigurationError: it refuses for another reason, or has no live page.
    """
    if response.is_success and "text/event-stream" in response.headers.get("content-type", ""):
        return
    code, reason = await _said_in(response)
    if response.status_code in (401, 403):
        raise TokenNeededError(_refusal(server, token, code, reason))
    if response.is_redirect:
        raise ConfigurationError(
            f"{server} sends to {printable(response.headers.get('location', 'another address'))}. Name the "
            f"address of agentrt serve itself: {option}."
        )
    if response.status_code in (404, 405) or response.is_success:
        raise ConfigurationError(
            f"what answers at {server} has no live page (status {response.status_code}). Name the address of "
            f"agentrt serve, not that of agentrt gateway or of another server: {option}."
        )
    raise ConfigurationError(
        f"{server} answers with status {response.status_code}{_quoted(reason)}. Mend that, or name another "
        f"server: {option}."
    )


def _refusal(server: str, token: Token | None, code: str | None, reason: str) -> str:
    """Return why a token is refused, and what to do; ``code`` and ``reason`` are the server's own."""
    if token is None:
        return f"{server} needs the token of its owner, and none was sent. {_TAKEN_FROM}"
    if code == "invalid_api_key":
        return (
            f"{server} does not know the token {token.source}: it is that of another server, or of an "
            f"earlier start. {_TAKEN_FROM}"
        )
    if code == "owner_only":
        return (
            f"the token {token.source} is that of an app, and {server} shows what it does to its owner only. "
            "Send the owner's token: the first app's in the server's token file."
        )
    return f"{server} refuses the token {token.source}{_quoted(reason)}. Send the owner's token."


def _quoted(reason: str) -> str:
    return f" ({reason})" if reason else ""


async def _said_in(response: httpx.Response) -> tuple[str | None, str]:
    """Return the code and the message of an error in OpenAI's form; None and "" where it has another form."""
    body = b""
    async for piece in response.aiter_bytes():
        body += piece
        if len(body) > _MAX_BYTES:
            break
    try:
        error = json.loads(body)["error"]
        return error["code"], printable(str(error["message"]))[:_MAX_CHARACTERS].rstrip(".")
    except (ValueError, LookupError, TypeError):
        return None, ""
