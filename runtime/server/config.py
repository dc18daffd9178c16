"""The settings of a server over one runtime."""

from __future__ import annotations

from pydantic import Field

from ..http.config import ListenConfig


class ServerConfig(ListenConfig):
    """A server before a runtime."""

    stalled_s: float = Field(default=30.0, gt=0)
    """The engine is unhealthy if work has waited so long and no forward pass has ended."""
