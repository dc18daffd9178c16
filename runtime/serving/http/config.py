"""Settings that the server and the gateway share: address, tokens and limits."""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path
from typing import Final

from pydantic import Field

from agentrt.errors import ConfigurationError
from agentrt.settings import Settings

from .identity import Tokens

_ORIGIN: Final = re.compile(
    r"(?P<scheme>https?)://(\[[0-9a-f:.]+\]|[^A-Z\s/:@*?#\[\]]+)(?P<port>:[0-9]{1,5})?"
)


class ListenConfig(Settings, strict=True, arbitrary_types_allowed=True):
    """The address of an HTTP server, the tokens it accepts, and its limits. Immutable."""

    host: str = "127.0.0.1"
    port: int = Field(default=8000, ge=0, le=65535)
    """0 takes a free port."""
    uds: Path | None = None
    """A Unix socket to listen on instead of host and port. Only its owner may connect."""
    tokens: Tokens | None = None
    """The accepted tokens; None accepts requests without a token."""
    cors_origins: frozenset[str] = frozenset()
    """Origins such as ``https://chat.example`` whose web pages may send requests. They need a token like
    other programs: no cookies are used."""

    max_body_bytes: int = Field(default=8 * 2**20, gt=0)
    max_requests: int = Field(default=256, gt=0)
    """Reactive requests in progress at once, and as many proactive ones. Further ones are answered 429."""
    max_held_bytes: int = Field(default=64 * 2**20, gt=0)
    """Bytes of the bodies of reactive requests in progress and of answers that their clients have yet to
    read, and as many of proactive ones. Those of requests that add more are answered 429."""
    max_connections: int = Field(default=2048, gt=0)
    """Connections at once, or half of the files that the process may open, if these are fewer. Half of them
    are for connections that have sent no valid token yet."""
    header_timeout_s: float = Field(default=10.0, gt=0)
    """A request's head must be complete within this time of its first byte, or of the connection."""
    body_timeout_s: float = Field(default=60.0, gt=0)
    write_timeout_s: float = Field(default=60.0, gt=0)
    """A client that has not read what it was sent by then is disconnected, which cancels its request."""
    idle_timeout_s: int = Field(default=30, gt=0)
    """A connection without requests is closed after this time."""
    drain_s: int = Field(default=30, ge=0)
    """How long requests may continue after the server was asked to stop."""

    def check(self) -> None:
        """Check that other machines cannot send requests without a token, and that the limits fit.

        Raises:
            ConfigurationError: they can, a body of the greatest length never finds room, or one of
                ``cors_origins`` is no origin.
        """
        for origin in self.cors_origins:
            check_origin(origin)
        if self.max_held_bytes < 2 * self.max_body_bytes:
            raise ConfigurationError(
                f"max_held_bytes {self.max_held_bytes} has no room for bodies of max_body_bytes "
                f"{self.max_body_bytes}. Make it at least twice as large."
            )
        if self.uds is None and self.tokens is None and not self.loopback:
            raise ConfigurationError(
                f"host {self.host} is reachable from other machines, and no token would be required. "
                "Listen on 127.0.0.1, or leave --no-auth out."
            )

    @property
    def apps(self) -> frozenset[str]:
        """The apps that have tokens; none if no token is required."""
        return frozenset() if self.tokens is None else self.tokens.apps

    @property
    def loopback(self) -> bool:
        """Whether only this machine can connect."""
        if self.uds is not None or self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def check_origin(text: str) -> None:
    """Check that ``text`` is the origin of web pages, in the form in which browsers send it.

    Raises:
        ConfigurationError: it is not.
    """
    found = _ORIGIN.fullmatch(text)
    if found is None or found["scheme"] + (found["port"] or "") in ("http:80", "https:443"):
        raise ConfigurationError(
            f"{text!r} is no origin. Give scheme, host and port as the browser sends them, such as "
            "https://chat.example or http://localhost:3000; there is no pattern for several."
        )
