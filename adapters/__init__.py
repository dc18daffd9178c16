"""Adapters of agent frameworks, one public module each, and what an adapter of another framework needs.

:func:`register_tool_type` makes the tools of a framework speculable. A model that takes results of
speculations before its answer ends reads them with :func:`current_result_source`; see
:mod:`agentrt.toolcache`.
"""

from agentrt.toolcache import (
    FinishedCall,
    ResultSource,
    TakeResult,
    current_result_source,
    offering_results,
    result_text,
)
from agentrt.tools.speculable import register_tool_type
from agentrt.tools.speculable_tool import Invocation, SpeculableOptions, SpeculableTool

__all__ = [
    "FinishedCall",
    "Invocation",
    "ResultSource",
    "SpeculableOptions",
    "SpeculableTool",
    "TakeResult",
    "current_result_source",
    "offering_results",
    "register_tool_type",
    "result_text",
]
