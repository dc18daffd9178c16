"""What all copies of one speculating OpenAI client share."""

from __future__ import annotations

from dataclasses import dataclass, field

from agentrt.adapting import Toolbox, Turns
from agentrt.drafts import reads_calls

from .response_history import ResponseHistory
from .tool_cache import ToolCacheEndpoint


@dataclass(frozen=True, slots=True)
class ClientState:
    """Predictors, settings, tools and report of a speculating client; shared by its copies."""

    turns: Turns
    toolbox: Toolbox
    tool_cache: ToolCacheEndpoint | None = None
    """The endpoint to submit results to; None if results are not submitted."""
    history: ResponseHistory = field(default_factory=ResponseHistory)

    @property
    def reads_calls(self) -> bool:
        """Whether a predictor reads calls off answers that have them in another form, such as code."""
        return any(map(reads_calls, self.turns.predictors))
