"""Online multinomial logistic regression over named features: what the pattern speculator learns with."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b

_RATE = 0.3
_LONGEST_STEP = 1.0
_FIRST_SQUARES = 0.3
_NEGLIGIBLE = 0.003
_MAX_NAMES = 200_000


def digest_of(text: str) -> int:
    """A number that stands for a text, here and in the store: 63 bits of its hash."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


class Weight:
    """The weight of one feature, and how much it has been moved."""

    __slots__ = ("squares", "used", "value")

    def __init__(self, value: float, squares: float = _FIRST_SQUARES, used: int = 0) -> None:
        """``squares`` is the sum of squared slopes (Adagrad), ``used`` when it was last moved."""
        self.value = value
        self.squares = squares
        self.used = used


class Weights:
    """The weight of each feature. Features not seen yet weigh what the prior says, most nothing.

    Features are known by digests, so that nothing a user has said is kept.
    """

    def __init__(self, prior: Mapping[str, float], *, max_features: int = 100_000) -> None:
        """``prior`` says what is known beforehand. Of more than ``max_features`` the oldest are dropped."""
        self._prior = {digest_of(feature): value for feature, value in prior.items()}
        self._max_features = max_features
        self._digests: dict[str, int] = {}
        self.learned: dict[int, Weight] = {}
        self.moved: set[int] = set()
        """The digests of weights that moved since someone emptied this."""
        self.now = 0

    def of(self, feature: str) -> float:
        """The weight of one feature."""
        digest = self._digest(feature)
        known = self.learned.get(digest)
        return self._prior.get(digest, 0.0) if known is None else known.value

    def score(self, features: Iterable[str]) -> float:
        """The sum of the features' weights."""
        return sum(map(self.of, features))

    def learn(self, options: Sequence[Sequence[str]], right: Mapping[int, float]) -> None:
        """Make the options with the indices in ``right`` likelier, up to the shares given (Adagrad)."""
        chances = softmax([self.score(features) for features in options])
        slopes: dict[str, float] = {}
        for index, (features, chance) in enumerate(zip(options, chances, strict=True)):
            error = right.get(index, 0.0) - chance
            if abs(error) > _NEGLIGIBLE:
                for feature in features:
                    slopes[feature] = slopes.get(feature, 0.0) + error
        self.now += 1
        for feature, slope in slopes.items():
            self._move(self._digest(feature), slope)
        if len(self.learned) > self._max_features:
            self._forget()

    def _move(self, digest: int, slope: float) -> None:
        weight = self.learned.get(digest)
        if weight is None:
            weight = self.learned[digest] = Weight(self._prior.get(digest, 0.0))
        weight.squares += slope * slope
        step = _RATE * slope / math.sqrt(weight.squares)
        weight.value += max(-_LONGEST_STEP, min(_LONGEST_STEP, step))
        weight.used = self.now
        self.moved.add(digest)

    def _digest(self, feature: str) -> int:
        digest = self._digests.get(feature)
        if digest is None:
            if len(self._digests) >= _MAX_NAMES:
                self._digests.clear()
            digest = self._digests[feature] = digest_of(feature)
        return digest

    def _forget(self) -> None:
        oldest = sorted(self.learned, key=lambda digest: self.learned[digest].used)
        for digest in oldest[: self._max_features // 5]:
            del self.learned[digest]
            self.moved.discard(digest)


def softmax(scores: Sequence[float]) -> list[float]:
    """The chances of options with these scores; they sum to 1."""
    highest = max(scores, default=0.0)
    powers = [math.exp(score - highest) for score in scores]
    total = sum(powers)
    return [power / total for power in powers]
