"""Where an HTTP server listens, whom it serves, and its limits: what the server and the gateway share."""

from __future__ import annotations

import ipaddress
from pathlib import Path

from pydantic import Field

from agentrt.errors import ConfigurationError
from agentrt.settings import Settings

from .identity import Tokens


class ListenConfig(Settings, strict=True, arbitrary_types_allowed=True):
    """Where a server listens, whom it serves, and how much of anything it takes. Immutable."""

    host: str = "127.0.0.1"
    port: int = Field(default=8000, ge=0, le=65535)
    """0 takes a free one."""
    uds: Path | None = None
    """A Unix socket to listen on instead of host and port. Only its owner may connect."""
    tokens: Tokens | None = None
    """Who may ask; None asks for no token."""

    max_body_bytes: int = Field(default=8 * 2**20, gt=0)
    max_requests: int = Field(default=256, gt=0)
    """Requests under way at once. One more is answered 429."""
    header_timeout_s: float = Field(default=10.0, gt=0)
    """A request's head must be complete within this time of its first byte, or of the connection."""
    body_timeout_s: float = Field(default=60.0, gt=0)
    write_timeout_s: float = Field(default=60.0, gt=0)
    """A client that takes nothing for so long is gone."""
    idle_timeout_s: int = Field(default=30, gt=0)
    """A connection on which nothing is asked for so long is closed."""
    drain_s: int = Field(default=30, ge=0)
    """How long requests may go on after the server was asked to stop."""

    def check(self) -> None:
        """Check that nothing is open to others that should not be.

        Raises:
            ConfigurationError: requests from other machines would be served without a token.
        """
        if self.uds is None and self.tokens is None and not self.loopback:
            raise ConfigurationError(
                f"host {self.host} is reachable from other machines, and nothing would ask for a token. "
                "Listen on 127.0.0.1, or leave --no-auth out."
            )

    @property
    def loopback(self) -> bool:
        """Whether only this machine can connect."""
        if self.uds is not None or self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False
