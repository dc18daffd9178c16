"""``agentrt serve``'s server with nano, in a process of its own."""

from __future__ import annotations

from ..common.served_runtime import RuntimeService, ServedRuntime


class PageServer(ServedRuntime):
    """Serves nano on a free port inside a ``with`` block, to requests without a token."""

    def __init__(self) -> None:
        """Start the process, and wait until clients can connect."""
        super().__init__(_serve)
        self.url = f"http://127.0.0.1:{self.port}"


def _serve() -> RuntimeService:
    from agentrt.runtime import RuntimeConfig
    from agentrt.runtime.serving.server import ServerConfig

    # One thread, as the demo has: the other cores are the browser's.
    return RuntimeService("nano", RuntimeConfig(threads=1), ServerConfig(port=0))
