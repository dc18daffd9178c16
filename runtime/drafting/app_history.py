"""What each app has generated, to retrieve drafts from (sd.npu §4.1). Nothing is shared between apps."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from .acceptance import AcceptanceRates
from .suffix_index import SuffixIndex

SEPARATOR: Final = -1
"""Follows each answer in the index of a history."""

_GENERATION_TOKENS: Final = 65_536
_MAX_APPS: Final = 64


class Source:
    """An index to retrieve drafts from, with the acceptance of its drafts so far."""

    def __init__(self, index: SuffixIndex, rates: AcceptanceRates) -> None:
        """``rates`` may be shared by several sources of one app."""
        self.index = index
        self.rates = rates


class AppHistory:
    """The answers of one app: the newest 64k to 128k tokens. Used on the engine thread only.

    They are in two indexes, of which the older one is dropped when the newer one is full, so that nothing is
    ever built anew.
    """

    def __init__(self) -> None:
        """Begin with no answer."""
        self.prompt_rates: Final = AcceptanceRates()
        """Acceptance of what is retrieved from the app's prompts."""
        self._rates = AcceptanceRates()
        self.sources = [self._new_source()]

    def add(self, answer: Sequence[int]) -> None:
        """Add the tokens of an answer."""
        newest = self.sources[0].index
        newest.extend(answer)
        newest.append(SEPARATOR)
        if len(newest) >= _GENERATION_TOKENS:
            self.sources = [self._new_source(), self.sources[0]]

    def _new_source(self) -> Source:
        return Source(SuffixIndex(_GENERATION_TOKENS), self._rates)


class AppHistories:
    """The histories of the apps that were served last, up to 64, of some 4 MB each when full. Thread-safe."""

    def __init__(self) -> None:
        """Begin without any app."""
        self._apps: OrderedDict[bytes, AppHistory] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, salt: bytes | None) -> AppHistory:
        """Return the history of the app with this salt; None shares nothing and gets a new one."""
        if salt is None:
            return AppHistory()
        with self._lock:
            history = self._apps.setdefault(salt, AppHistory())
            self._apps.move_to_end(salt)
            if len(self._apps) > _MAX_APPS:
                self._apps.popitem(last=False)
            return history
