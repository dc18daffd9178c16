"""Decaying estimates of predictors and their drafts, for the controller."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..reports.events import DraftJudged

DECAY = 0.95
"""The share of an estimate kept at each observation: the last twenty make up two thirds of it."""


class Mean:
    """A decaying mean: older observations count less."""

    def __init__(self) -> None:
        """Create a mean without observations."""
        self._sum = 0.0
        self._weight = 0.0

    def add(self, value: float) -> None:
        """Add an observation."""
        self._sum = DECAY * self._sum + value
        self._weight = DECAY * self._weight + 1

    def correct_last(self, change: float) -> None:
        """Change the value of a recent observation by ``change``."""
        self._sum = max(0.0, self._sum + change)

    @property
    def value(self) -> float | None:
        """The mean; None before the first observation."""
        return self._sum / self._weight if self._weight else None


class Rate(Mean):
    """A decaying mean of shares that starts from one imagined success, so it is optimistic at first."""

    def __init__(self) -> None:
        """Create a rate of 1."""
        super().__init__()
        self.add(1.0)

    @property
    def value(self) -> float:
        """The mean share."""
        return self._sum / self._weight


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
        self.backing_off = False
        self.skipped = 0
        """Turns skipped since it last ran, while it is backing off."""
        self.interval = 1
        """Turns to skip until it is tried again."""


@dataclass(slots=True)
class OpenDrafts:
    """One predictor's drafts in a turn that is not answered yet."""

    samples: int
    judged: list[DraftJudged] = field(default_factory=list)
    money: float = 0.0
