"""What each app has generated, to retrieve drafts from (sd.npu §4.1), and how likely they are accepted.

Nothing is shared between apps.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

from .grammar_history import GrammarHistory
from .history_store import HistorySaver
from .suffix_index import SEPARATOR, SuffixIndex

_GENERATION_TOKENS: Final = 65_536
_MAX_APPS: Final = 64

_PRIOR: Final = (-4.5, 1.2, 3.8, 0.7)
"""Weights of the features before anything was learned, fitted to answers of two models (decision 0035)."""
_RATES: Final = (0.2, 0.04, 0.04, 0.04)
"""Learning rates. The first weight, by which all tokens become more or less likely, learns the quickest: text
in which nothing repeats shows within some twenty tokens."""
_MOST_COUNTED: Final = 4096
_LOGARITHMS: Final = (0.0, *(math.log(count) for count in range(1, _MOST_COUNTED)))
"""Of small numbers, which are needed some hundred times in a forward pass."""


class Evidence(NamedTuple):
    """What speaks for a token."""

    match_length: int
    """Tokens before it that occurred before, in the same order. Those that are drafted count: it is verified
    only if they were right."""
    agreeing: int
    """Occurrences that continue with it."""
    total: int
    """All occurrences."""

    @property
    def features(self) -> tuple[float, float, float, float]:
        """A constant, and what makes the token more likely."""
        length, total = min(self.match_length, _MOST_COUNTED - 1), min(self.total, _MOST_COUNTED - 1)
        return 1.0, _LOGARITHMS[length], self.agreeing / self.total, _LOGARITHMS[total]


class AcceptanceModel:
    """Logistic regression of the acceptance of tokens on their evidence. Not thread-safe.

    It starts from weights that hold on average and goes on learning: each app, and each kind of source, has a
    model of its own.
    """

    def __init__(self) -> None:
        """Begin with the prior."""
        self._weights = _PRIOR

    def probability(self, evidence: Evidence) -> float:
        """Return the probability that a token with this evidence is accepted."""
        constant, length, share, total = self._weights
        _, by_length, by_share, by_total = evidence.features
        return 1.0 / (1.0 + math.exp(-constant - length * by_length - share * by_share - total * by_total))

    def learn(self, evidence: Evidence, *, accepted: bool) -> None:
        """Learn from a token that was verified, or would have been right or wrong."""
        error = accepted - self.probability(evidence)
        constant, length, share, total = (
            weight + rate * error * feature
            for weight, rate, feature in zip(self._weights, _RATES, evidence.features, strict=True)
        )
        self._weights = (constant, max(0.0, length), max(0.0, share), max(0.0, total))


@dataclass(frozen=True, slots=True)
class Source:
    """An index to retrieve drafts from, with the acceptance of its drafts so far."""

    index: SuffixIndex
    acceptance: AcceptanceModel
    """It may be shared by several sources of one app."""


class AppHistory:
    """The answers of one app: the newest 64k to 128k tokens. Used on the engine thread only.

    They are in two indexes, of which the older one is dropped when the newer one is full, so that nothing is
    ever built anew. Restored answers are in a third one, which is dropped as soon as there are two others.
    """

    def __init__(self, save: Callable[[Sequence[int]], None] | None = None) -> None:
        """Begin with no answer; ``save`` is called with each one that is added."""
        self.of_prompts: Final = AcceptanceModel()
        """Acceptance of what is retrieved from the app's prompts."""
        self.of_predictions: Final = AcceptanceModel()
        """Acceptance of what the app predicts."""
        self.grammar: Final = GrammarHistory()
        self._of_answers = AcceptanceModel()
        self._save = save
        self._newest = self._new_source()
        self._older: Source | None = None
        self._restored: Source | None = None

    @property
    def sources(self) -> list[Source]:
        """What drafts are retrieved from, the newest first."""
        return [each for each in (self._newest, self._older, self._restored) if each is not None]

    def add(self, answer: Sequence[int]) -> None:
        """Add the tokens of an answer."""
        newest = self._newest.index
        newest.extend(answer)
        newest.append(SEPARATOR)
        if len(newest) >= _GENERATION_TOKENS:
            if self._older is not None:
                self._restored = None
            self._older, self._newest = self._newest, self._new_source()
        if self._save is not None:
            self._save(answer)

    def restore(self, answers: Sequence[int]) -> None:
        """Add answers of an earlier process, each followed by :data:`SEPARATOR`. Callable on any thread."""
        self._restored = Source(SuffixIndex(len(answers), answers), self._of_answers)

    def _new_source(self) -> Source:
        return Source(SuffixIndex(_GENERATION_TOKENS), self._of_answers)


class AppHistories:
    """The histories of the apps that were served last, up to 64, of some 4 MB each when full. Thread-safe."""

    def __init__(self, saver: HistorySaver | None = None) -> None:
        """``saver`` keeps those of named apps for the next process; None keeps them in memory only."""
        self._saver = saver
        self._apps: OrderedDict[bytes, AppHistory] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, salt: bytes | None, app: str = "") -> AppHistory:
        """Return the history of the app with this salt; None shares nothing and gets a new one.

        ``app`` is its name. That of an app without a name is never saved: in the next process another app
        may have none.
        """
        if salt is None:
            return AppHistory()
        with self._lock:
            history = self._apps.get(salt)
            if history is None:
                save = None if self._saver is None or not app else partial(self._saver.save, app)
                history = self._apps[salt] = AppHistory(save)
                if self._saver is not None and app:
                    self._saver.load(app, history.restore)
            self._apps.move_to_end(salt)
            if len(self._apps) > _MAX_APPS:
                self._apps.popitem(last=False)
            return history

    def close(self) -> None:
        """Save what was not saved yet. May be called again."""
        if self._saver is not None:
            self._saver.close()
