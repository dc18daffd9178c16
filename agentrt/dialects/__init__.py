"""How requests say their priority and the times of their tools: a dialect for each engine or gateway.

`speculate(…, dialect=…)` and `EndpointSpeculator(…, dialect=…)` take a dialect or its name. Without one an
endpoint is recognised by the answers it has given; see :mod:`agentrt.dialects.dialect`.
"""

from .dialect import (
    CHAT_COMPLETIONS,
    MODEL_PATHS,
    RESPONSES,
    VLLM,
    AgentRTServer,
    Dialect,
    Dynamo,
    Evidence,
    LiteLLM,
    LlmD,
    PriorityFields,
    ServiceTier,
    SGLang,
)
from .endpoint import EndpointDialect, PrioritizedAsyncClient, PrioritizedClient

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
