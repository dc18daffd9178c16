"""A gateway that adds the tool cache to any OpenAI-compatible engine (SpecTools, Algorithm 5).

It needs the ``gateway`` extra only: no model and no OpenVINO.
"""

from agentrt.extras import needs_extra

with needs_extra("gateway"):
    from ..http.listener import bind
    from ..http.run import serve
    from .app import create_gateway
    from .config import GatewayConfig

__all__ = ["GatewayConfig", "bind", "create_gateway", "serve"]
