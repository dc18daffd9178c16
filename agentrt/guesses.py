"""The guesses of one turn: who guessed which call when."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

MAX_GUESSES = 256
"""Of one predictor in one turn; an endless one must fill neither the memory nor the loop."""


@dataclass(frozen=True, slots=True)
class Guess:
    """A call of ``tool`` that ``predictor`` guessed first ``draft_s`` seconds into the turn."""

    predictor: str
    key: str
    tool: str
    draft_s: float


class Guesses:
    """Keeps each call once a predictor, whether it was run early or not."""

    def __init__(self) -> None:
        """Nothing is guessed yet."""
        self._guesses: dict[tuple[str, str], Guess] = {}

    def add(self, guess: Guess) -> None:
        """Keep a guess, unless the predictor has made it before."""
        self._guesses.setdefault((guess.predictor, guess.key), guess)

    def judged(self, made: Collection[str | None]) -> list[tuple[Guess, bool]]:
        """All guesses, and whether theirs is one of the keys of the calls that were made."""
        return [(guess, guess.key in made) for guess in tuple(self._guesses.values())]

    def first_s(self, key: str) -> float | None:
        """When this call was first guessed, or None."""
        times = [guess.draft_s for guess in tuple(self._guesses.values()) if guess.key == key]
        return min(times, default=None)
