"""Outputs of tools that ran before the model asked for them (SpecTools §3.2, Algorithms 4 and 5)."""

from .outputs import OutputLimits, ToolOutput, ToolOutputs
from .proposer import ToolCacheProposer
from .turns import Reply, Spelling, ToolTurn, ToolTurns

__all__ = [
    "OutputLimits",
    "Reply",
    "Spelling",
    "ToolCacheProposer",
    "ToolOutput",
    "ToolOutputs",
    "ToolTurn",
    "ToolTurns",
]
