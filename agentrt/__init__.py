"""agentrt: speculative tool execution for the agents you have, and a local LLM runtime under them."""

from .calls import ToolCall
from .config import SpeculationConfig
from .drafts import DraftRequest
from .priority import Priority, current_priority, priority
from .reports.report import SpeculationReport
from .telemetry import keep_openvino_quiet
from .tools.scopes import run_scope
from .tools.speculable import speculable
from .turns.session import SpeculationSession

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
