"""The runtime as an HTTP service with OpenAI's interface, on loopback or a Unix socket."""

from agentrt.extras import needs_extra

with needs_extra("serve"):
    from ..http.listener import bind
    from ..http.run import serve
    from .app import create_app
    from .server_state import ServerConfig

__all__ = ["ServerConfig", "bind", "create_app", "serve"]
