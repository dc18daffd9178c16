"""agentrt: speculative tool execution for existing agents, and a local LLM runtime.

Public are the names in ``__all__`` of ``agentrt`` and of ``agentrt.calls``, ``.config``, ``.errors``,
``.perfmodel``, ``.reports``, ``.testing``, ``.speculators``, ``.adapters`` (with ``.langchain``, ``.mcp`` and
``.openai``) and ``.runtime`` (with ``.server``, ``.gateway`` and ``.nano``). Everything else is private and
may change in any release.
"""

from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    __version__: str
else:

    def __getattr__(name: str) -> str:
        """Load ``__version__`` when it is first used (PEP 562)."""
        if name != "__version__":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from .version import read_version

        return globals().setdefault(name, read_version())


keep_openvino_quiet()
