"""agentrt for LangChain and LangGraph: `speculate` any chat model, or run one on the local runtime.

::

    model = speculate(ChatOpenAI(...), LocalSpeculator(directory))
    agent = create_agent(model, [search_notes, read_note])      # tools decorated with @speculable

or, without a change of the model, ``middleware=[SpeculationMiddleware(LocalSpeculator(directory))]``.

Importing this module also makes :func:`agentrt.speculable` accept LangChain's tools, and keeps what
LangChain does in the speculation of any session or adapter out of the user's callbacks and traces.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentrt.adapting import register_context_source, register_scope_source, register_tool_type
from agentrt.errors import MissingExtraError

try:
    from langchain_core.tools import BaseTool
except ModuleNotFoundError as error:
    raise MissingExtraError("langchain-core", "langgraph") from error

from .chat_model.background import BackgroundModel, BackgroundRun
from .chat_model.chat_agentrt import ChatAgentRT, init_chat_model
from .guards.guards import allow_speculation
from .recorder import RunRecorder
from .runs import langgraph_run, silent_context
from .speculation.speculate import report_of, speculate
from .tools.tools import make_speculable, speculable_mcp_tools

if TYPE_CHECKING:
    from .speculation.middleware import SpeculationMiddleware

__all__ = [
    "BackgroundModel",
    "BackgroundRun",
    "ChatAgentRT",
    "RunRecorder",
    "SpeculationMiddleware",
    "allow_speculation",
    "init_chat_model",
    "report_of",
    "speculable_mcp_tools",
    "speculate",
]

register_tool_type(BaseTool, make_speculable)
register_scope_source(langgraph_run)
register_context_source(silent_context)


def __getattr__(name: str) -> Any:
    """Load the middleware with LangChain's agents, which cost as much as all else here (PEP 562)."""
    if name != "SpeculationMiddleware":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .speculation.middleware import SpeculationMiddleware

    return SpeculationMiddleware
