"""The settings of a server."""

from __future__ import annotations

from pydantic import Field

from ..http.config import ListenConfig


class ServerConfig(ListenConfig):
    """The address and limits of a server in front of one runtime. Immutable."""

    default_max_tokens: int | None = Field(default=None, ge=1)
    """Tokens of an answer whose request does not say how many it may have; None for as many as fit the
    context, or 16 in the older completions, as for OpenAI."""
    stalled_s: float = Field(default=30.0, gt=0)
    """``/health`` is 503 once requests have waited this long and no kernel has ended."""
