"""Places that apps share: for requests in progress, and for the bytes that are held for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Final, cast

from fastapi import Request

from agentrt.priority import Priority

from .config import ListenConfig
from .errors import rate_limit_error
from .request_state import app_of

FREE_BYTES: Final = 1 << 16
"""Bytes of each request that are not counted: the limit on connections bounds them."""


class Shares:
    """A number of places, some of which belong to each app. For one event loop.

    Half of the places are divided equally among the apps: each finds its own, however many the others take.
    The other half goes to those that come first, as do all places if there is only one app, or if there are
    fewer than two places for each.
    """

    def __init__(self, places: int, apps: Collection[str]) -> None:
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


class HeldBytes(AbstractContextManager["HeldBytes"]):
    """The bytes of one request: its body, and what its client has yet to read."""

    def __init__(self, shares: Mapping[Priority, Shares], app: str, priority: Priority) -> None:
        """Hold none. ``priority`` is the one that is known before the body is read."""
        self._shares = shares
        self._app = app
        self._priority = priority
        self._counted = 0

    def grow_to(self, total: int) -> None:
        """Hold ``total`` bytes, or as many as now if these are more; raise a 429 if the app may not."""
        added = total - FREE_BYTES - self._counted
        if added <= 0:
            return
        self._take(self._priority, added)
        self._counted += added

    def move_to(self, priority: Priority) -> None:
        """Count the bytes as those of a request of this priority; raise a 429 if the app may hold no more."""
        if priority is self._priority:
            return
        self._take(priority, self._counted)
        self._shares[self._priority].give_back(self._app, self._counted)
        self._priority = priority

    def __exit__(self, *error: object) -> None:
        """Hold none."""
        self._shares[self._priority].give_back(self._app, self._counted)
        self._counted = 0

    def _take(self, priority: Priority, added: int) -> None:
        if not self._shares[priority].take(self._app, added):
            raise rate_limit_error("too many large requests are in progress. Try again in a moment.")


class Admission:
    """Counts requests in progress and the bytes of large ones, and refuses what is beyond a limit.

    Reactive and proactive requests have limits of their own, so that no number of background requests
    refuses one that a person waits for. Within each, apps have :class:`Shares`. For one event loop.
    """

    def __init__(self, config: ListenConfig) -> None:
        """``config`` has the limits and the apps."""
        self.requests = {each: Shares(config.max_requests, config.apps) for each in Priority}
        self.bytes = {each: Shares(config.max_held_bytes, config.apps) for each in Priority}

    @property
    def active(self) -> int:
        """Requests in progress."""
        return sum(shares.taken for shares in self.requests.values())

    @property
    def held_bytes(self) -> int:
        """Bytes that are counted."""
        return sum(shares.taken for shares in self.bytes.values())


@contextmanager
def admit(request: Request, priority: Priority) -> Iterator[None]:
    """Count a request as in progress until the block ends; raise a 429 if the app has as many as it may."""
    app, admission = app_of(request), cast(Admission, request.app.state.admission)
    held: HeldBytes = request.state.held_bytes
    held.move_to(priority)
    shares = admission.requests[priority]
    if not shares.take(app):
        raise rate_limit_error(
            f"too many {priority.name.lower()} requests are in progress. Try again in a moment."
        )
    try:
        yield
    finally:
        shares.give_back(app)
