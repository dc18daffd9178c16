"""Predictors of the next tool call. Each can be given to a session or to an adapter's ``speculate``."""

from agentrt.drafts import AnswerStream, DraftCost, Learner, Speculator

from .code.speculator import CodeSpeculator
from .endpoint import EndpointSpeculator
from .ensemble import EnsembleSpeculator
from .local import LocalSpeculator
from .pattern.speculator import PatternSpeculator
from .stream import StreamSpeculator

__all__ = [
    "AnswerStream",
    "CodeSpeculator",
    "DraftCost",
    "EndpointSpeculator",
    "EnsembleSpeculator",
    "Learner",
    "LocalSpeculator",
    "PatternSpeculator",
    "Speculator",
    "StreamSpeculator",
]
