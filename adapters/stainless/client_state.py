"""What all copies of one speculating client share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agentrt.adapting import Toolbox, Turns
from agentrt.drafts import reads_calls
from agentrt.reports import SpeculationReport

from ..transparent_subclass import state_of
from .tool_cache import ToolCaches
from .wire import Wire


@dataclass(frozen=True, slots=True)
class ClientState:
    """Predictors, settings, tools and report of a speculating client; shared by its copies."""

    turns: Turns
    toolbox: Toolbox
    wire: Wire
    tool_cache: ToolCaches | None
    """The endpoints to submit results to; None if results are not submitted."""

    @property
    def reads_calls(self) -> bool:
        """Whether a predictor reads calls off answers that have them in another form, such as code."""
        return any(map(reads_calls, self.turns.predictors))


def report_of(client: Any) -> SpeculationReport:
    """Return the report of a client that ``speculate`` returned, or of a copy of it.

    Raises:
        ConfigurationError: the client does not speculate.
    """
    return state_of(client, ClientState).turns.report()
