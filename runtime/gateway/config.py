"""Everything about a gateway that is chosen when it starts."""

from __future__ import annotations

import httpx
from pydantic import Field

from agentrt.errors import ConfigurationError

from ..http.config import ListenConfig


class GatewayConfig(ListenConfig):
    """A gateway before an engine. Immutable."""

    upstream: str
    """The engine's address. A final ``/v1``, as in the base URL of OpenAI's clients, may be there or not."""
    upstream_key: str | None = Field(default=None, repr=False)
    """Sent to the engine as its API key, in place of what the client sent."""
    upstream_timeout_s: float = Field(default=600.0, gt=0)
    """The engine is given up if nothing has come from it for so long."""

    def check(self) -> None:
        """Check what :class:`ListenConfig` does, and the engine's address.

        Raises:
            ConfigurationError: see there; or the address is none.
        """
        super().check()
        self.root()

    def root(self) -> httpx.URL:
        """The address under which the engine's ``/v1`` lies.

        Raises:
            ConfigurationError: it is no plain address of an HTTP server.
        """
        try:
            url = httpx.URL(self.upstream)
        except httpx.InvalidURL as error:
            raise self._no_address(str(error)) from error
        if url.scheme not in ("http", "https") or not url.host:
            raise self._no_address("it does not begin with http:// or https:// and a name")
        if url.userinfo or url.query or url.fragment:
            raise self._no_address("it has more than scheme, name, port and path")
        path = url.raw_path.rstrip(b"/").removesuffix(b"/v1").rstrip(b"/")
        return url.copy_with(raw_path=path or b"/")

    def _no_address(self, why: str) -> ConfigurationError:
        return ConfigurationError(
            f"{self.upstream!r} is no address of an engine: {why}. Use one like http://127.0.0.1:8000/v1."
        )
