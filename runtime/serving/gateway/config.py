"""The settings of a gateway."""

from __future__ import annotations

import httpx
from pydantic import Field

from ..http.address import server_root
from ..http.config import ListenConfig
from .bounded_redis import check_redis_url


class GatewayConfig(ListenConfig):
    """The address and limits of a gateway, and the engine behind it. Immutable."""

    upstream: str
    """The engine's address, with or without the final ``/v1`` of the base URL of OpenAI's clients."""
    upstream_key: str | None = Field(default=None, repr=False)
    """Sent to the engine as its API key, in place of the client's."""
    upstream_timeout_s: float = Field(default=600.0, gt=0)
    """A request fails if the engine sends nothing for this long."""
    redis: str | None = None
    """A Redis or Valkey server in which replicas of the gateway share tool outputs; None shares none."""
    redis_password: str | None = Field(default=None, repr=False)

    def check(self) -> None:
        """Check what :class:`ListenConfig` checks, and the addresses of the engine and of Redis."""
        super().check()
        self.root()
        if self.redis is not None:
            check_redis_url(self.redis)

    def root(self) -> httpx.URL:
        """Return the address under which the engine's ``/v1`` lies; see :func:`server_root`."""
        key = "the engine's key is given by --upstream-key-file"
        return server_root(self.upstream, "--upstream", "an engine", key)
