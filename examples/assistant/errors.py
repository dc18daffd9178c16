"""What a tool can be unable to do."""

from __future__ import annotations

from agentrt.errors import AgentRTError


class ToolError(AgentRTError):
    """A tool cannot do its work; the model receives ``{"error": message}``."""
