"""How a request's priority is written for an endpoint: one dialect for each engine or gateway.

`speculate(…, dialect=…)` and `EndpointSpeculator(…, dialect=…)` take a dialect or its name. Without one an
endpoint is recognised by the answers it has given; see :mod:`agentrt.dialects.registry`.
"""

from .agentrt_server import AgentRTServer
from .dialect import CHAT_COMPLETIONS, MODEL_PATHS, RESPONSES, Dialect, Evidence, PriorityFields
from .dynamo import Dynamo
from .endpoint import EndpointDialect
from .litellm import LiteLLM
from .llm_d import LlmD
from .openai_client import PrioritizedAsyncClient, PrioritizedClient
from .service_tier import ServiceTier
from .sglang import SGLang
from .vllm import VLLM

__all__ = [
    "CHAT_COMPLETIONS",
    "MODEL_PATHS",
    "RESPONSES",
    "VLLM",
    "AgentRTServer",
    "Dialect",
    "Dynamo",
    "EndpointDialect",
    "Evidence",
    "LiteLLM",
    "LlmD",
    "PrioritizedAsyncClient",
    "PrioritizedClient",
    "PriorityFields",
    "SGLang",
    "ServiceTier",
]
