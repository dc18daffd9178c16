"""What a baseline is: it predicts tokens, and the engine verifies all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from agentrt.runtime.scheduler.draft import Draft


class Predictor(Protocol):
    """Predicts the next tokens of one sequence, as many as its paper says."""

    def observe(self, verified: Sequence[int], logits: Any) -> None:
        """See the logits behind the last token and behind each of ``verified``, before they are sampled."""

    def append(self, token: int) -> None:
        """Note a token of the answer."""

    def predict(self) -> Sequence[int]:
        """Return the tokens to verify; none where nothing is predicted."""


Baseline: TypeAlias = Callable[[Sequence[int]], Predictor]
"""Begins one sequence with its prompt. What it keeps between sequences is the history of one app."""


class FixedWidthDrafter:
    """A baseline as a drafter: the engine verifies every predicted token, as the baseline's paper does."""

    def __init__(self, predictor: Predictor) -> None:
        """Draft what ``predictor`` predicts."""
        from agentrt.runtime.scheduler.draft import Draft

        self.observe = predictor.observe
        self.append = predictor.append
        self._predict = predictor.predict
        self._draft = Draft

    def draft(self) -> Draft:
        """Return the predicted tokens."""
        tokens = tuple(self._predict())
        return self._draft(tokens, (1.0,) * len(tokens))
