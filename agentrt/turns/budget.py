"""What speculation has spent in vain, against what it may."""

from __future__ import annotations

from ..config import Budget

_UNITS = ("runs", "seconds", "tokens", "money")


class Spending:
    """Keeps a :class:`Budget`. Clockless: every method that depends on the time is told it."""

    def __init__(self, budget: Budget) -> None:
        """Nothing is spent."""
        self._limits: dict[str, float] = {
            unit: limit for unit in _UNITS if (limit := getattr(budget, unit)) is not None
        }
        self._spent = dict.fromkeys(self._limits, 0.0)
        self._per_seconds = budget.per_seconds
        self._forgot_at: float | None = None

    def add(self, *, runs: int = 0, seconds: float = 0.0, tokens: int = 0, money: float = 0.0) -> None:
        """Spend; a negative amount gives back what turned out not to be in vain."""
        for unit, amount in zip(_UNITS, (runs, seconds, tokens, money), strict=True):
            if unit in self._spent:
                self._spent[unit] = max(0.0, self._spent[unit] + amount)

    def exhausted(self, now: float, *, money: float = 0.0) -> str | None:
        """Say which part of the budget does not allow for more, counting ``money`` that is yet to come."""
        self._forget(now)
        for unit, limit in self._limits.items():
            if self._spent[unit] >= limit or (unit == "money" and self._spent[unit] + money > limit):
                return f"the budget of {limit:g} {unit} is spent"
        return None

    def _forget(self, now: float) -> None:
        if self._per_seconds is None:
            return
        passed = 0.0 if self._forgot_at is None else max(0.0, now - self._forgot_at)
        self._forgot_at = now
        for unit, limit in self._limits.items():
            self._spent[unit] = max(0.0, self._spent[unit] - limit * passed / self._per_seconds)
