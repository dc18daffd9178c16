"""The runtime as an HTTP service with OpenAI's interface, on loopback or a Unix socket."""

from agentrt.extras import needs_extra

with needs_extra("serve"):
    from ..http.run import bind, serve
    from .app import create_app
    from .config import ServerConfig

__all__ = ["ServerConfig", "bind", "create_app", "serve"]
