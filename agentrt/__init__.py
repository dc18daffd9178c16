"""agentrt: speculative tool execution for the agents you have, and a local LLM runtime under them."""

from ._telemetry import keep_openvino_quiet
from .calls import ToolCall
from .config import SpeculationConfig
from .drafts import DraftRequest
from .priority import Priority, current_priority, priority
from .report import SpeculationReport
from .scopes import run_scope
from .session import SpeculationSession
from .speculable import speculable

__all__ = [
    "DraftRequest",
    "Priority",
    "SpeculationConfig",
    "SpeculationReport",
    "SpeculationSession",
    "ToolCall",
    "current_priority",
    "priority",
    "run_scope",
    "speculable",
]

keep_openvino_quiet()
