"""The engine of the gateway bench: `agentrt serve` with the nano model, in a process of its own."""

from __future__ import annotations

from ..common.served_runtime import RuntimeService, ServedRuntime, exact


class BenchEngine(ServedRuntime):
    """Serves nano without tokens on a free port inside a ``with`` block, in f32.

    Equal histories give equal tokens, whatever else is in the batch.
    """

    def __init__(self) -> None:
        """Open the model and listen."""
        super().__init__(_serve)


def _serve() -> RuntimeService:
    from agentrt.runtime.serving.server import ServerConfig

    return RuntimeService("nano", exact(), ServerConfig(port=0))
