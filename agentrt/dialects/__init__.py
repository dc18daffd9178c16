"""How a request's priority is written for an endpoint: one dialect for each engine or gateway.

`speculate(…, dialect=…)` and `EndpointSpeculator(…, dialect=…)` take a dialect or its name. Without one an
endpoint is recognised by the answers it has given; see :mod:`agentrt.dialects.registry`.
"""

from .agentrt_server import AgentRTServer
from .dialect import Dialect, Evidence, PriorityFields
from .dynamo import Dynamo
from .litellm import LiteLLM
from .llm_d import LlmD
from .service_tier import ServiceTier
from .sglang import SGLang
from .vllm import VLLM

__all__ = [
    "VLLM",
    "AgentRTServer",
    "Dialect",
    "Dynamo",
    "Evidence",
    "LiteLLM",
    "LlmD",
    "PriorityFields",
    "SGLang",
    "ServiceTier",
]
