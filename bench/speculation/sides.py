"""What both comparisons with a peer share: our sides, and how long a streamed answer takes to its calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

SAME_INFORMATION: Final = "agentrt, same information"
"""The side that drafts from the stream, as the peers start calls."""
SIMULATED_DRAFTS: Final = "agentrt, simulated drafts"
"""The side whose predictor knows the tasks besides."""
RIGHT: Final = 0.8
"""The share of turns that the simulated drafts have right."""
CALLS_SHARE: Final = 0.6
"""The share of an answer's time that its calls take together; they come last."""
Sides = Mapping[str, Callable[[str], Awaitable[Any]]]
"""By the name of a side, what does the task of a request on it and returns a transcript."""
