"""agentrt: speculative tool execution for existing agents, and a local LLM runtime.

Public are the names in ``__all__`` of ``agentrt`` and of ``agentrt.calls``, ``.config``, ``.dialects``,
``.errors``, ``.perfmodel``, ``.reports``, ``.testing``, ``.speculators``, of ``.anthropic``, ``.langchain``,
``.mcp``, ``.openai``, ``.openai_agents`` and ``.pydantic_ai`` in :mod:`agentrt.adapters`, of ``.runtime``
(with ``.server``, ``.gateway`` and ``.nano``) and ``.terminal_text``; and, for adapters and predictors of
your own, of ``.adapting``, ``.argument_checks``, ``.drafts``, ``.settings`` and ``.toolcache``. Everything
else is private and may change in any release.

The public names load on first use, so that the command line begins, and can be interrupted, at once.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from .priority import Priority, current_priority, priority

if TYPE_CHECKING:
    from .calls import ToolCall
    from .config import SpeculationConfig
    from .drafts import DraftRequest
    from .reports.report import SpeculationReport
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

_DEFINED_IN = {
    "DraftRequest": ".drafts",
    "SpeculationConfig": ".config",
    "SpeculationReport": ".reports.report",
    "SpeculationSession": ".turns.session",
    "ToolCall": ".calls",
    "run_scope": ".tools.scopes",
    "speculable": ".tools.speculable",
}

# import openvino sends an event to Google Analytics, creates an intel folder with a client id in the user's
# home, and can delay the end of the process by three seconds on a machine without a network. It treats its
# telemetry package as optional, and None blocks that package's import, as documented; the type of sys.modules
# omits it. Where OpenVINO was imported before agentrt, the event has already been sent.
sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]


def __getattr__(name: str) -> Any:
    """Load a public name (PEP 562)."""
    if name not in _DEFINED_IN:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_DEFINED_IN[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names, whether they are loaded or not."""
    return sorted({*globals(), *__all__})
