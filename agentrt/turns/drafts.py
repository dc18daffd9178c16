"""The guesses of one turn: who guessed which call when."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

MAX_DRAFTS = 256
"""Of one predictor in one turn; an endless one must fill neither the memory nor the loop."""


@dataclass(frozen=True, slots=True)
class DraftRecord:
    """A call of ``tool`` that ``predictor`` guessed first ``draft_s`` seconds into the turn."""

    predictor: str
    key: str
    tool: str
    draft_s: float


class DraftRecords:
    """Keeps each call once a predictor, whether it was run early or not."""

    def __init__(self) -> None:
        """Nothing is guessed yet."""
        self._guesses: dict[tuple[str, str], DraftRecord] = {}

    def add(self, draft: DraftRecord) -> None:
        """Keep a guess, unless the predictor has made it before."""
        self._guesses.setdefault((draft.predictor, draft.key), draft)

    def judged(self, made: Collection[str | None]) -> list[tuple[DraftRecord, bool]]:
        """All guesses, and whether theirs is one of the keys of the calls that were made."""
        return [(draft, draft.key in made) for draft in tuple(self._guesses.values())]

    def first_s(self, key: str) -> float | None:
        """When this call was first guessed, or None."""
        times = [draft.draft_s for draft in tuple(self._guesses.values()) if draft.key == key]
        return min(times, default=None)
