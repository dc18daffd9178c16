"""What each app has generated, to retrieve drafts from (sd.npu §4.1).

Nothing is shared between apps.
"""

from __future__ import annotations

import functools
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from .acceptance import AcceptanceModel
from .calibration import CalibratedPrompts
from .grammar_history import GrammarHistory
from .history_store import HistorySaver
from .suffix_index import SEPARATOR, SuffixIndex

_GENERATION_TOKENS: Final = 65_536
_MAX_APPS: Final = 64


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
        self.of_rejected: Final = AcceptanceModel()
        """Acceptance of drafts that were rejected before."""
        self.grammar: Final = GrammarHistory()
        self._of_answers = AcceptanceModel()
        self._save = save
        self._newest = self._new_source()
        self._older: Source | None = None
        self._restored: Source | None = None

    @functools.cached_property
    def calibrated(self) -> CalibratedPrompts:
        """The app's prompts with what the model predicts in them: some MB, made when they are needed."""
        return CalibratedPrompts()

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
                save = None if self._saver is None or not app else functools.partial(self._saver.save, app)
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
