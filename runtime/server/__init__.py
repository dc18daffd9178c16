"""The runtime as a service: OpenAI's HTTP interface on loopback or a Unix socket."""

from agentrt.errors import MissingExtraError

try:
    import fastapi as _fastapi  # noqa: F401
    import prometheus_client as _prometheus_client  # noqa: F401
    import uvicorn as _uvicorn  # noqa: F401
except ImportError as error:
    raise MissingExtraError(error.name or "fastapi", "serve") from error

from ..http.run import bind, serve
from .app import create_app
from .config import ServerConfig

__all__ = ["ServerConfig", "bind", "create_app", "serve"]
