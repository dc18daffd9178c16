"""What all speculating models that one call of `speculate` leads to share."""

from __future__ import annotations

from dataclasses import dataclass, field

from agentrt.adapting import Turns

from ..openai.response_history import ResponseHistory


@dataclass(frozen=True, eq=False)
class ModelState:
    """Predictors, settings and reports of a speculating model, or of all models of a provider."""

    turns: Turns
    history: ResponseHistory = field(default_factory=ResponseHistory)
    classes: dict[type, type] = field(default_factory=dict)
    """The speculating classes by those of the user's models and providers."""

    def __deepcopy__(self, memo: object) -> ModelState:
        """Return the state itself: a copy of a model reports to, and learns with, the same state."""
        return self
