"""Drafts from draft tokens that were rejected (sd.npu §3.4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ..scheduler.draft import LEAST_REACHED, Draft
from .acceptance import AcceptanceModel, Evidence
from .drafter import Drafter

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MOST_VERIFIED: Final = 32
"""Tokens of one segment that are verified in all forward passes together, unless in the first: as many as a
pass of an NPU verifies in the time of one (§2.3)."""


def longest_agreement(draft: Sequence[int], predicted: Sequence[int]) -> range:
    """Return where behind their first difference the two agree for the longest (Eq. 3); empty if nowhere.

    ``predicted[i]`` is the model's token in place of ``draft[i]``, behind all draft tokens in front of it.
    """
    agreeing = [one == other for one, other in zip(draft, predicted, strict=True)]
    place = agreeing.index(False) + 1 if False in agreeing else len(agreeing)
    longest = range(0)
    while place < len(agreeing):
        end = place
        while end < len(agreeing) and agreeing[end]:
            end += 1
        if end - place > len(longest):
            longest = range(place, end)
        place = end + 1
    return longest


class ReuseDrafter(Drafter):
    """Drafts the rejected tokens on which draft and model agree again behind the rejected one.

    The answer may have them behind its own token in place of a rejected one, at once or some tokens later
    (Table 2: missing tokens, a synonym). So they are drafted until the answer has them, or until they have
    been verified too often.
    """

    def __init__(self, acceptance: AcceptanceModel) -> None:
        """``acceptance`` is learned from the app's rejected drafts."""
        self._acceptance = acceptance
        self._rejected: Sequence[int] = ()
        """Of the forward pass whose tokens are being appended."""
        self._segment: Sequence[int] = ()
        self._accepted = 0
        """Tokens of the segment that the answer has."""
        self._waited = 0
        """Forward passes since then."""
        self._verified = 0

    def observe(self, verified: Sequence[int], logits: NDArray[np.float32]) -> None:
        """See :meth:`Drafter.observe`."""
        if verified:
            agreeing = longest_agreement(verified, logits[:-1].argmax(axis=-1).tolist())
            self._rejected = verified[agreeing.start : agreeing.stop]

    def append(self, token: int) -> None:
        """See :meth:`Drafter.append`."""
        if not self._segment:
            return
        accepted = token == self._segment[self._accepted]
        self._acceptance.learn(self._evidence(0), accepted=accepted)
        self._accepted += accepted
        if accepted:
            self._waited = 0
        if self._accepted == len(self._segment) or (self._accepted and not accepted):
            self._segment = ()

    def draft(self) -> Draft:
        """See :meth:`Drafter.draft`."""
        if self._rejected:
            self._segment, self._rejected = self._rejected, ()
            self._accepted = self._waited = self._verified = 0
        elif self._segment:
            self._waited += 1
            if self._verified + len(self._segment) - self._accepted > _MOST_VERIFIED:
                self._segment = ()
        rest = self._segment[self._accepted :]
        self._verified += len(rest)
        probabilities: list[float] = []
        reached = 1.0
        for depth in range(len(rest)):
            probability = self._acceptance.probability(self._evidence(depth))
            reached *= probability
            if reached < LEAST_REACHED:
                break
            probabilities.append(probability)
        return Draft(tuple(rest[: len(probabilities)]), tuple(probabilities))

    def _evidence(self, depth: int) -> Evidence:
        """What speaks for the token ``depth`` behind the next of the segment."""
        return Evidence(1 + self._accepted + depth, 1, 1 + self._waited)
