"""The check that a user trusts an MCP server, whose own claims about its tools then count."""

from __future__ import annotations

from agentrt.errors import ConfigurationError


def check_trusted(trusted: object) -> None:
    """Raise :class:`ConfigurationError` unless ``trusted`` is True."""
    if trusted is not True:
        raise ConfigurationError(
            "an untrusted server can claim anything of its tools. Pass trusted=True if you trust it, or "
            "declare the tools that you know to change nothing with @speculable."
        )
