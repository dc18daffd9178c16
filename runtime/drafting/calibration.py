"""Drafts from what the model predicts in the prompt: in-context distribution calibration (sd.npu §3.3)."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from ..scheduler.draft import LEAST_REACHED, Draft
from .acceptance import AcceptanceModel, Evidence
from .drafter import Drafter
from .suffix_index import MAX_MATCH, SEPARATOR, SuffixIndex

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MOST_TOKENS: Final = 32
_CAPACITY: Final = 65_536
_CONTEXT: Final = 8
"""Tokens in front of the first one with a prediction, by which its place is found."""


class CalibratedPrompts:
    """Prompts of one app, and what the model predicts behind each of their tokens. Used on one thread.

    They outlast their requests: the prompts of an app begin alike, and tokens of which the prefix cache has
    the keys and values are not computed again.
    """

    def __init__(self) -> None:
        """Begin with no prompt."""
        self.acceptance: Final = AcceptanceModel()
        self._clear()

    def _clear(self) -> None:
        self.index = SuffixIndex(_CAPACITY)
        self._predicted = array("i")

    @property
    def memory_bytes(self) -> int:
        """Bytes that prompts and predictions take."""
        return self.index.memory_bytes + self._predicted.itemsize * len(self._predicted)

    def add(self, tokens: Sequence[int], predicted: Sequence[int]) -> None:
        """Add a text with the token predicted behind each of its own, :data:`SEPARATOR` where none is known.

        All earlier texts are forgotten where more than 65,536 tokens would be kept.
        """
        if len(self.index) + len(tokens) >= _CAPACITY:
            self._clear()
        self.index.extend([*tokens, SEPARATOR])
        self._predicted.extend([*predicted, SEPARATOR])

    def predicted(self, ends: Sequence[int]) -> Counter[int]:
        """Count the tokens that are predicted at positions, each behind a token of a text."""
        counts = Counter(self._predicted[end - 1] for end in ends)
        del counts[SEPARATOR]
        return counts


class _Step(NamedTuple):
    """A token that may follow, to learn from."""

    token: int
    evidence: Evidence
    probability: float


class CalibrationDrafter(Drafter):
    """Drafts the path of the likeliest predictions behind the last tokens, through the app's prompts.

    Where the text goes on with the predicted token, the next prediction is that behind it; where it does not,
    that behind another place with this token (the paper's depth-first search, without its siblings).
    """

    reads_prompt = True

    def __init__(self, prompt: Sequence[int], prompts: CalibratedPrompts) -> None:
        """``prompts`` are those of the app, to which the predictions inside ``prompt`` are added."""
        self._prompt = prompt
        self._prompts = prompts
        self._predicted: dict[int, int] = {}
        """By place in the prompt, until the first token is sampled."""
        self._last = array("i", prompt[-MAX_MATCH:])
        self._expected: list[_Step] = []

    def observe_prompt(self, begin: int, logits: NDArray[np.float32]) -> None:
        """See :meth:`Drafter.observe_prompt`."""
        self._predicted.update(enumerate(logits.argmax(axis=-1).tolist(), begin))

    def observe(self, verified: Sequence[int], logits: NDArray[np.float32]) -> None:
        """See :meth:`Drafter.observe`. The first logits are those behind the prompt's last token."""
        if self._predicted:
            self._predicted[len(self._prompt) - 1] = int(logits[0].argmax())
            self._add_prompt()

    def append(self, token: int) -> None:
        """See :meth:`Drafter.append`."""
        self._last.append(token)
        del self._last[:-MAX_MATCH]
        if self._expected:
            step, *later = self._expected
            self._prompts.acceptance.learn(step.evidence, accepted=token == step.token)
            self._expected = later if token == step.token else []

    def draft(self) -> Draft:
        """See :meth:`Drafter.draft`."""
        index, last, reached = self._prompts.index, self._last[:], 1.0
        match = index.longest_match(last)
        length, ends = (0, tuple[int, ...]()) if match is None else (match.length, match.ends)
        path: list[_Step] = []
        while len(path) < _MOST_TOKENS and (counts := self._prompts.predicted(ends)):
            token, count = counts.most_common(1)[0]
            evidence = Evidence(length, count, counts.total())
            probability = self._prompts.acceptance.probability(evidence)
            path.append(_Step(token, evidence, probability))
            reached *= probability
            if reached < LEAST_REACHED:
                break
            last.append(token)
            following = zip(ends, index.following(ends), strict=True)
            stays = tuple(end + 1 for end, each in following if each == token)
            if stays:
                length, ends = length + 1, stays
            elif (match := index.longest_match(last)) is not None:
                length, ends = match.length, match.ends
            else:
                break
        self._expected = path
        drafted = path if reached >= LEAST_REACHED else path[:-1]
        return Draft(tuple(each.token for each in drafted), tuple(each.probability for each in drafted))

    def _add_prompt(self) -> None:
        begin = max(0, min(self._predicted) - _CONTEXT)
        predicted = [self._predicted.get(place, SEPARATOR) for place in range(begin, len(self._prompt))]
        self._prompts.add(self._prompt[begin:], predicted)
        self._predicted = {}
