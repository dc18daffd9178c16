"""The tool cache before an engine that has none: any OpenAI-compatible server (SpecTools, Algorithm 5)."""

from agentrt.errors import MissingExtraError

try:
    import httpx as _httpx  # noqa: F401
except ImportError as error:
    raise MissingExtraError(error.name or "httpx", "serve") from error

from .app import create_gateway
from .config import GatewayConfig

__all__ = ["GatewayConfig", "create_gateway"]
