"""What all copies of one speculating chat model share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from langchain_core.language_models import BaseChatModel

from agentrt.adapting import Turns
from agentrt.drafts import Speculator

from .bound_tools import LastBoundTools

if TYPE_CHECKING:
    from ..openai.tool_cache import ToolCacheEndpoint

Predictor = Speculator | BaseChatModel


@dataclass(frozen=True)
class ModelState:
    """Predictors, settings and report of a speculating model; shared by its copies."""

    turns: Turns
    tool_cache: ToolCacheEndpoint | None = None
    """The endpoint to submit results to; None if results are not submitted over HTTP."""
    tools: LastBoundTools = field(default_factory=LastBoundTools)

    def __deepcopy__(self, memo: object) -> ModelState:
        """Return the state itself: its predictors may hold models of their own."""
        return self
