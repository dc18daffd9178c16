"""agentrt: speculative tool execution for existing agents, and a local LLM runtime.

Public are the names in ``__all__`` of ``agentrt`` and of ``agentrt.calls``, ``.config``, ``.dialects``,
``.errors``, ``.perfmodel``, ``.reports``, ``.testing``, ``.speculators``, ``.adapters`` (with ``.langchain``,
``.mcp``, ``.openai``, ``.openai_agents`` and ``.pydantic_ai``), ``.runtime`` (with ``.server``, ``.gateway``
and ``.nano``) and ``.terminal_text``. Everything else is private and may change in any release.
"""

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

__version__ = "0.1.0"

keep_openvino_quiet()
