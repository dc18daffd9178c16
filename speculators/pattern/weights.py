"""Online multinomial logistic regression over named features, with Adagrad steps."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b

_LEARNING_RATE = 0.3
_LONGEST_STEP = 1.0
_FIRST_SQUARES = 0.3
_NEGLIGIBLE = 0.003
_MAX_CACHED_DIGESTS = 200_000


def digest_of(text: str) -> int:
    """Return 63 bits of a text's hash, by which features and values are known here and in the store."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


class Weight:
    """The weight of one feature and the state of its optimiser."""

    __slots__ = ("squares", "used", "value")

    def __init__(self, value: float, squares: float = _FIRST_SQUARES, used: int = 0) -> None:
        """``squares`` is the sum of squared gradients (Adagrad), ``used`` the step of the last update."""
        self.value = value
        self.squares = squares
        self.used = used


class Weights:
    """The weights of all features; a feature not seen yet has the weight of the prior, or 0.

    Features are stored by their digests, so that no text of a user is kept.
    """

    def __init__(self, prior: Mapping[str, float], *, max_features: int = 100_000) -> None:
        """``prior`` has initial weights by feature.

        Of more than ``max_features`` features those not updated for the longest time are dropped.
        """
        self._prior = {digest_of(feature): value for feature, value in prior.items()}
        self._max_features = max_features
        self._digests: dict[str, int] = {}
        self.learned: dict[int, Weight] = {}
        self.changed: set[int] = set()
        """Digests of the weights that were updated since a caller last cleared this set."""
        self.step = 0

    def of(self, feature: str) -> float:
        """Return the weight of one feature."""
        digest = self._digest(feature)
        known = self.learned.get(digest)
        return self._prior.get(digest, 0.0) if known is None else known.value

    def score(self, features: Iterable[str]) -> float:
        """Return the sum of the features' weights."""
        return sum(map(self.of, features))

    def learn(self, classes: Sequence[Sequence[str]], targets: Mapping[int, float]) -> None:
        """Take one gradient step on the cross-entropy.

        ``classes`` are the features of each class, ``targets`` the target probabilities by the class's index;
        classes without one have the target 0.
        """
        probabilities = softmax([self.score(features) for features in classes])
        gradients: dict[str, float] = {}
        for index, (features, probability) in enumerate(zip(classes, probabilities, strict=True)):
            error = targets.get(index, 0.0) - probability
            if abs(error) > _NEGLIGIBLE:
                for feature in features:
                    gradients[feature] = gradients.get(feature, 0.0) + error
        self.step += 1
        for feature, gradient in gradients.items():
            self._update(self._digest(feature), gradient)
        if len(self.learned) > self._max_features:
            self._drop_oldest()

    def _update(self, digest: int, gradient: float) -> None:
        weight = self.learned.get(digest)
        if weight is None:
            weight = self.learned[digest] = Weight(self._prior.get(digest, 0.0))
        weight.squares += gradient * gradient
        step = _LEARNING_RATE * gradient / math.sqrt(weight.squares)
        weight.value += max(-_LONGEST_STEP, min(_LONGEST_STEP, step))
        weight.used = self.step
        self.changed.add(digest)

    def _digest(self, feature: str) -> int:
        digest = self._digests.get(feature)
        if digest is None:
            if len(self._digests) >= _MAX_CACHED_DIGESTS:
                self._digests.clear()
            digest = self._digests[feature] = digest_of(feature)
        return digest

    def _drop_oldest(self) -> None:
        oldest = sorted(self.learned, key=lambda digest: self.learned[digest].used)
        for digest in oldest[: self._max_features // 5]:
            del self.learned[digest]
            self.changed.discard(digest)


def softmax(scores: Sequence[float]) -> list[float]:
    """Return the probabilities of classes with these scores; they sum to 1."""
    highest = max(scores, default=0.0)
    powers = [math.exp(score - highest) for score in scores]
    total = sum(powers)
    return [power / total for power in powers]
