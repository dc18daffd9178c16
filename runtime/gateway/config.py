"""The settings of a gateway."""

from __future__ import annotations

import httpx
from pydantic import Field

from agentrt.errors import ConfigurationError

from ..http.config import ListenConfig


class GatewayConfig(ListenConfig):
    """The address and limits of a gateway, and the engine behind it. Immutable."""

    upstream: str
    """The engine's address, with or without the final ``/v1`` of the base URL of OpenAI's clients."""
    upstream_key: str | None = Field(default=None, repr=False)
    """Sent to the engine as its API key, in place of the client's."""
    upstream_timeout_s: float = Field(default=600.0, gt=0)
    """A request fails if the engine sends nothing for this long."""

    def check(self) -> None:
        """Check what :class:`ListenConfig` checks, and the engine's address.

        Raises:
            ConfigurationError: other machines could send requests without a token, or the address is invalid.
        """
        super().check()
        self.root()

    def root(self) -> httpx.URL:
        """Return the address under which the engine's ``/v1`` lies.

        Raises:
            ConfigurationError: ``upstream`` is not the plain address of an HTTP server.
        """
        try:
            url = httpx.URL(self.upstream)
        except httpx.InvalidURL as error:
            raise self._invalid_upstream(str(error)) from error
        if url.scheme not in ("http", "https") or not url.host:
            raise self._invalid_upstream("it does not begin with http:// or https:// and a host")
        if url.port is not None and not 0 < url.port < 2**16:
            raise self._invalid_upstream("its port is not between 1 and 65535")
        if url.userinfo or url.query or url.fragment:
            raise self._invalid_upstream("it has more than scheme, host, port and path")
        path = url.raw_path.rstrip(b"/").removesuffix(b"/v1").rstrip(b"/")
        return url.copy_with(raw_path=path or b"/")

    def _invalid_upstream(self, problem: str) -> ConfigurationError:
        return ConfigurationError(
            f"{self.upstream!r} is not the address of an engine: {problem}. Use one like "
            "http://127.0.0.1:8000/v1."
        )
