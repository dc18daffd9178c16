"""Decaying means."""

from __future__ import annotations

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
    def weight(self) -> float:
        """The decaying number of observations, twenty at most."""
        return self._weight

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
