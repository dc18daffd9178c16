"""Drafts from the answer that the caller predicts: OpenAI's ``prediction``."""

from __future__ import annotations

import functools
from array import array
from collections.abc import Sequence
from typing import Final

from ..scheduler.draft import LEAST_REACHED, MAX_DRAFT_TOKENS, NO_DRAFT, Draft
from .acceptance import AcceptanceModel, Evidence
from .drafter import Drafter
from .suffix_index import MAX_MATCH, SuffixIndex

_TRUST: Final = 32
"""Length of match that counts as before the first divergence: the caller says that the answer begins so."""
_RESUMED_TRUST: Final = 8
"""What a match counts more behind a divergence than elsewhere: most predictions are followed again."""
_LEAST_MATCH: Final = 2
"""Tokens that must agree for the prediction to be followed from another place on."""


class Prediction:
    """Follows an answer through the tokens of its prediction, also behind places where they differ.

    Behind a difference it goes on where the last tokens of the answer occur in the prediction, at the nearest
    of several places. As long as they do not occur, each token of the answer counts as a replacement of one
    token of the prediction.
    """

    def __init__(self, tokens: Sequence[int]) -> None:
        """``tokens`` are those of the prediction."""
        self.tokens: Final = tokens
        self.place = 0
        """Place of the token that is predicted to follow."""
        self.agreeing = _TRUST
        """How many tokens before it agree; more at the beginning of the answer."""
        self._last = array("i")
        self._accepted: set[int] = set()

    @functools.cached_property
    def _index(self) -> SuffixIndex:
        return SuffixIndex(len(self.tokens), self.tokens)

    @property
    def accepted(self) -> int:
        """Number of tokens of the prediction that the answer has."""
        return len(self._accepted)

    @property
    def next(self) -> int | None:
        """The token that is predicted to follow; None behind the end of the prediction."""
        return self.tokens[self.place] if self.place < len(self.tokens) else None

    def append(self, token: int) -> None:
        """Go on by a token of the answer."""
        self._last.append(token)
        if len(self._last) > 2 * MAX_MATCH:
            self._last = self._last[-MAX_MATCH:]
        if token == self.next:
            self.agreeing += 1
        else:
            self._resume()
            if not self.agreeing:
                self.place += 1
                return
        self._accepted.add(self.place)
        self.place += 1

    def _resume(self) -> None:
        """Find the place of the last token of the answer."""
        match = self._index.longest_match(self._last)
        if match is None or match.length < _LEAST_MATCH:
            self.agreeing = 0
            return
        self.agreeing = match.length + _RESUMED_TRUST
        self.place = min((end - 1 for end in match.ends), key=lambda place: abs(place - self.place))


def count_accepted(prediction: Sequence[int], answer: Sequence[int]) -> int:
    """Return how many tokens of ``prediction`` are in ``answer``, each counted once."""
    followed = Prediction(prediction)
    for token in answer:
        followed.append(token)
    return followed.accepted


class PredictionDrafter(Drafter):
    """Drafts the rest of the prediction."""

    def __init__(self, prediction: Sequence[int], end_token: int | None, acceptance: AcceptanceModel) -> None:
        """``end_token`` is expected behind the prediction; ``acceptance`` is learned from the app's ones."""
        end = () if end_token is None else (end_token,)
        self._prediction = Prediction((*prediction, *end))
        self._acceptance = acceptance

    def append(self, token: int) -> None:
        """See :meth:`Drafter.append`."""
        followed = self._prediction
        if followed.next is not None:
            self._acceptance.learn(_evidence(followed.agreeing), accepted=token == followed.next)
        followed.append(token)

    def draft(self) -> Draft:
        """See :meth:`Drafter.draft`."""
        followed = self._prediction
        rest = followed.tokens[followed.place : followed.place + MAX_DRAFT_TOKENS]
        probabilities: list[float] = []
        reached = 1.0
        for depth in range(len(rest)):
            probability = self._acceptance.probability(_evidence(followed.agreeing + depth))
            reached *= probability
            if reached < LEAST_REACHED:
                break
            probabilities.append(probability)
        if not probabilities:
            return NO_DRAFT
        return Draft(tuple(rest[: len(probabilities)]), tuple(probabilities))


def _evidence(agreeing: int) -> Evidence:
    return Evidence(max(1, agreeing), 1, 1)
