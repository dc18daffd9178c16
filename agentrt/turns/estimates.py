"""Decaying estimates of predictors and their drafts, for the controller."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..reports.events import DraftJudged
from .payoff import DECAY, Mean, PredictionCost, Probes, Rate


class SampleEstimate:
    """Means per turn of a predictor that drew one number of samples."""

    def __init__(self) -> None:
        """Create estimates without observations."""
        self.turns = 0
        self.correct = Rate()
        self.wrong = Mean()
        self.money = Mean()


class ToolEstimate:
    """Means over one predictor's drafts of one tool."""

    def __init__(self) -> None:
        """Create estimates without observations."""
        self.precision = Rate()
        self.correct = 0.0
        """Decaying number of right drafts: the weight of this tool among the predictor's."""
        self.lead_s = Mean()
        """G - g of the right drafts, each in its own turn."""

    def add(self, *, correct: bool, lead_s: float) -> None:
        """Add a judged draft that came ``lead_s`` before the answer."""
        self.precision.add(correct)
        self.correct = DECAY * self.correct + correct
        if correct:
            self.lead_s.add(lead_s)

    def add_unclaimed(self) -> None:
        """Count a draft that was added as right as a wrong one: its speculation was not claimed."""
        self.precision.correct_last(-1.0)
        self.correct = max(0.0, self.correct - 1)


class PredictorEstimate:
    """The turns of one predictor, and how it is doing by number of samples."""

    def __init__(self) -> None:
        """Create estimates without observations."""
        self.by_samples: dict[int, SampleEstimate] = {}
        self.turns = 0
        self.dry_turns = 0
        """Turns in a row without a right draft."""
        self.charged = False
        """Whether it has ever charged tokens or money."""
        self.cost = PredictionCost()
        self.probes = Probes()


@dataclass(slots=True)
class OpenDrafts:
    """One predictor's drafts in a turn that is not answered yet."""

    samples: int
    dry_turns: int = 0
    """Those of the predictor when the turn began."""
    judged: list[DraftJudged] = field(default_factory=list)
    ran_s: float | None = None
    """For how long the predictor ran; None while it runs."""
    money: float = 0.0
