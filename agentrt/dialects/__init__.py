"""How a request's priority is written for an endpoint: a dialect for each engine or gateway.

`speculate(…, dialect=…)` and `EndpointSpeculator(…, dialect=…)` take a dialect or its name. Without one an
endpoint is recognised by the answers it has given; see :mod:`agentrt.dialects.engines`.
"""

from .dialect import Dialect, Evidence, PriorityFields
from .engines import VLLM, AgentRTServer, Dynamo, LiteLLM, LlmD, ServiceTier, SGLang

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
