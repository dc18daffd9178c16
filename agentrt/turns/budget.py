"""What speculation has wasted, against the budget for it."""

from __future__ import annotations

from ..config import Budget

_UNITS = ("runs", "seconds", "tokens", "money")


class Spending:
    """The spent part of a :class:`Budget`. It has no clock: methods that depend on the time take it."""

    def __init__(self, budget: Budget) -> None:
        """Track the units that ``budget`` limits."""
        self._limits: dict[str, float] = {
            unit: limit for unit in _UNITS if (limit := getattr(budget, unit)) is not None
        }
        self._spent = dict.fromkeys(self._limits, 0.0)
        self._per_seconds = budget.per_seconds
        self._decayed_at: float | None = None

    def add(self, *, runs: int = 0, seconds: float = 0.0, tokens: int = 0, money: float = 0.0) -> None:
        """Spend; a negative amount gives back what turned out not to be wasted."""
        for unit, amount in zip(_UNITS, (runs, seconds, tokens, money), strict=True):
            if unit in self._spent:
                self._spent[unit] = max(0.0, self._spent[unit] + amount)

    def exhausted(self, now: float, *, money: float = 0.0) -> str | None:
        """Return why the budget allows no more, if ``money`` is to be spent next; None if it does."""
        self._decay(now)
        for unit, limit in self._limits.items():
            if self._spent[unit] >= limit or (unit == "money" and self._spent[unit] + money > limit):
                return f"the budget of {limit:g} {unit} is spent"
        return None

    def _decay(self, now: float) -> None:
        if self._per_seconds is None:
            return
        elapsed = 0.0 if self._decayed_at is None else max(0.0, now - self._decayed_at)
        self._decayed_at = now
        for unit, limit in self._limits.items():
            self._spent[unit] = max(0.0, self._spent[unit] - limit * elapsed / self._per_seconds)
