"""What all copies of one speculating OpenAI client share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from agentrt.adapting import Toolbox, Turns
from agentrt.drafts import reads_calls
from agentrt.errors import ConfigurationError

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


def state_of(client: Any) -> ClientState:
    """Return the state of a speculating client.

    Raises:
        ConfigurationError: the client does not speculate.
    """
    state = getattr(client, "_agentrt_state", None)
    if not isinstance(state, ClientState):
        raise ConfigurationError(f"{type(client).__name__} does not speculate. Pass it to speculate() first.")
    return state
