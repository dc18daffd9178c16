"""What speculation has wasted, against the budget for it."""

from __future__ import annotations

from collections.abc import Hashable

from ..config import Budget

_UNITS = ("runs", "seconds", "tokens", "money")
_ROUNDING = 1e-9
"""Share of a limit by which sums and the decay are inexact."""


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
        self._running: dict[Hashable, list[float]] = {}

    def add(self, *, runs: int = 0, seconds: float = 0.0, tokens: int = 0, money: float = 0.0) -> None:
        """Spend; a negative amount gives back what turned out not to be wasted."""
        for unit, amount in zip(_UNITS, (runs, seconds, tokens, money), strict=True):
            if unit in self._spent:
                self._spent[unit] = max(0.0, self._spent[unit] + amount)

    def start_run(self, run: Hashable, *, seconds: float, money: float) -> None:
        """Spend a run that is expected to take ``seconds`` and costs ``money``."""
        self._running.setdefault(run, []).append(seconds)
        self.add(runs=1, seconds=seconds, money=money)

    def claim_run(self, run: Hashable, *, money: float) -> None:
        """Give back what a run has spent: it was not wasted."""
        self.add(runs=-1, seconds=-self._expected(run), money=-money)

    def waste_run(self, run: Hashable, *, seconds: float) -> None:
        """Replace the seconds that were expected of a run by the measured ones."""
        self.add(seconds=seconds - self._expected(run))

    def _expected(self, run: Hashable) -> float:
        open_runs = self._running.get(run)
        if not open_runs:
            return 0.0
        seconds = open_runs.pop()
        if not open_runs:
            del self._running[run]
        return seconds

    def exhausted(
        self, now: float, *, runs: int = 0, seconds: float = 0.0, tokens: int = 0, money: float = 0.0
    ) -> str | None:
        """Return why the budget allows no more, if this much is to be spent next; None if it does."""
        self._decay(now)
        due = dict(zip(_UNITS, (runs, seconds, tokens, money), strict=True))
        for unit, limit in self._limits.items():
            spent = self._spent[unit]
            if spent >= limit or spent + due[unit] > limit * (1 + _ROUNDING):
                return f"the budget of {limit:g} {unit} is spent"
        return None

    def _decay(self, now: float) -> None:
        if self._per_seconds is None:
            return
        elapsed = 0.0 if self._decayed_at is None else max(0.0, now - self._decayed_at)
        self._decayed_at = now
        for unit, limit in self._limits.items():
            self._spent[unit] = max(0.0, self._spent[unit] - limit * elapsed / self._per_seconds)
