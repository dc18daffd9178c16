"""Places that several apps share: requests, connections or bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection


class Shares:
    """A number of places, some of which belong to each app. For one event loop.

    Half of the places are divided equally among the apps: each finds its own, however many the others take.
    The other half goes to those that come first, as do all places if there is only one app, or if there are
    fewer than two places for each.
    """

    def __init__(self, places: int, apps: Collection[str] = ()) -> None:
        """``apps`` are those with places of their own. Others take what is common."""
        self._apps = frozenset(apps) if len(apps) > 1 else frozenset()
        self._own = places // (2 * len(self._apps)) if self._apps else 0
        self._common = places - self._own * len(self._apps)
        self._common_taken = 0
        self._taken: Counter[str] = Counter()

    @property
    def taken(self) -> int:
        """Places that all apps have taken."""
        return self._taken.total()

    def room(self, app: str, places: int = 1) -> bool:
        """Whether ``app`` may take ``places``."""
        return self._common_after(app, places) <= self._common

    def take(self, app: str, places: int = 1) -> bool:
        """Take ``places`` for ``app``; without effect, and False, if it may have no more."""
        if not self.room(app, places):
            return False
        self._common_taken = self._common_after(app, places)
        self._taken[app] += places
        return True

    def give_back(self, app: str, places: int = 1) -> None:
        """Return ``places`` that ``app`` has taken."""
        self._common_taken = self._common_after(app, -places)
        self._taken[app] -= places
        if not self._taken[app]:
            del self._taken[app]

    def _common_after(self, app: str, places: int) -> int:
        """Return how many common places are taken once ``app`` has taken ``places`` more."""
        own = self._own if app in self._apps else 0
        before = self._taken[app]
        return self._common_taken + max(0, before + places - own) - max(0, before - own)
