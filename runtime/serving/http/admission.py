"""The limits on requests in progress, and on the bytes that are held for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from fastapi import Request

from agentrt.priority import Priority

from .config import ListenConfig
from .errors import rate_limit_error
from .held_bytes import HeldBytes
from .request_state import app_of, held_bytes_of
from .shares import Shares


class Admission:
    """Counts requests in progress and the bytes of large ones, and refuses what is beyond a limit.

    Reactive and proactive requests have limits of their own, so that no number of background requests
    refuses one that a person waits for. Within each, apps have :class:`Shares`. For one event loop.
    """

    def __init__(self, config: ListenConfig) -> None:
        """``config`` has the limits and the apps."""
        self._requests = _of_each_priority(config.max_requests, config)
        self._bytes = _of_each_priority(config.max_held_bytes, config)

    @property
    def active(self) -> int:
        """Requests in progress."""
        return sum(shares.taken for shares in self._requests.values())

    @property
    def held_bytes(self) -> int:
        """Bytes that are counted."""
        return sum(shares.taken for shares in self._bytes.values())

    @contextmanager
    def admit(self, request: Request, priority: Priority) -> Iterator[None]:
        """Count a request of this priority as in progress until the block ends.

        Raises:
            ApiError: 429, the app has as many as it may.
        """
        app, shares = app_of(request), self._requests[priority]
        held_bytes_of(request).move_to(priority)
        if not shares.take(app):
            raise rate_limit_error(
                f"too many {priority.name.lower()} requests are in progress. Try again in a moment."
            )
        try:
            yield
        finally:
            shares.give_back(app)

    @contextmanager
    def hold_bytes(self, app: str, priority: Priority) -> Iterator[HeldBytes]:
        """Count the bytes of one request until the block ends."""
        held = HeldBytes(self._bytes, app, priority)
        try:
            yield held
        finally:
            held.release()


def _of_each_priority(places: int, config: ListenConfig) -> Mapping[Priority, Shares]:
    return {priority: Shares(places, config.apps) for priority in Priority}
