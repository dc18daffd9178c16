"""What SAM's drafts are worth at any number of verified tokens: a replay of answers that a model has given.

Its drafts depend on tokens only, and not on logits or times. So they are the same in a replay of the answers
as while the model generates them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, TypeAlias

from .baselines.predictor import Predictor
from .baselines.suffix_automaton import SuffixAutomatonDecoding

_WIDTHS: Final = (1, 2, 3, 4, 6, 8, 11, 15, 23, 31, 47)


@dataclass(frozen=True, slots=True)
class Replayed:
    """Forward passes of replayed answers."""

    tokens: int = 0
    passes: int = 0
    verified: int = 0

    def __add__(self, other: Replayed) -> Replayed:
        """Return the sum of both."""
        return Replayed(
            self.tokens + other.tokens, self.passes + other.passes, self.verified + other.verified
        )

    @property
    def tokens_a_pass(self) -> float:
        """Tokens of a forward pass: accepted ones and the sampled one."""
        return self.tokens / max(1, self.passes)

    @property
    def verified_a_pass(self) -> float:
        """Draft tokens of a forward pass."""
        return self.verified / max(1, self.passes)


RecordedAnswer: TypeAlias = tuple[Sequence[int], Sequence[int]]
"""The prompt of an answer that a model has given, and its tokens."""


def replay(predictor: Predictor, answer: Sequence[int], max_tokens: int) -> Replayed:
    """Count the forward passes of one answer, whose first token prefill has computed."""
    passes = verified = place = 0
    while place < len(answer) - 1:
        predictor.append(answer[place])
        draft = predictor.predict()[: max_tokens - place - 2]
        following = answer[place + 1 :]
        accepted = 0
        while accepted < min(len(draft), len(following)) and draft[accepted] == following[accepted]:
            accepted += 1
        passes += 1
        verified += len(draft)
        for token in following[: min(accepted, len(following) - 1)]:
            predictor.append(token)
        place += accepted + 1
    return Replayed(len(answer) - 1, passes, verified)


def sam_tokens_a_pass(
    apps: Sequence[Sequence[RecordedAnswer]], max_tokens: int, verified_a_pass: float
) -> float:
    """Return SAM's tokens a pass where it verifies ``verified_a_pass`` draft tokens a pass.

    ``apps`` are the answers of several apps, each in the order of its requests. Between two fixed widths the
    result is interpolated.
    """
    points = [(0.0, 1.0)]
    for width in _WIDTHS:
        total = sum((_replay_app(width, app, max_tokens) for app in apps), Replayed())
        points.append((total.verified_a_pass, total.tokens_a_pass))
    points.sort()
    for (left, low), (right, high) in pairwise(points):
        if left <= verified_a_pass <= right and right > left:
            return low + (high - low) * (verified_a_pass - left) / (right - left)
    return points[-1][1]


def _replay_app(width: int, answers: Sequence[RecordedAnswer], max_tokens: int) -> Replayed:
    sam = SuffixAutomatonDecoding(width)
    return sum((replay(sam(prompt), tokens, max_tokens) for prompt, tokens in answers), Replayed())
