"""Who guesses the next tool call. Each can be given to a session or to an adapter's ``speculate``."""

from agentrt.drafts import Speculator

from .endpoint import EndpointSpeculator
from .local import LocalSpeculator
from .pattern import PatternSpeculator

__all__ = ["EndpointSpeculator", "LocalSpeculator", "PatternSpeculator", "Speculator"]
