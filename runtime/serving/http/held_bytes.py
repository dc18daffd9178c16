"""The bytes that are held for requests: bodies, and answers that their clients have yet to read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from agentrt.priority import Priority

from .errors import ApiError, rate_limit_error
from .shares import Shares

FREE_BYTES: Final = 1 << 16
"""Bytes of each request that are not counted: the limit on connections bounds them."""


class HeldBytes:
    """The bytes of one request: its body, and what its client has yet to read."""

    def __init__(self, shares: Mapping[Priority, Shares], app: str, priority: Priority) -> None:
        """Hold none. ``priority`` is the one that is known before the body is read."""
        self._shares = shares
        self._app = app
        self._priority = priority
        self._counted = 0

    def grow_to(self, total: int) -> None:
        """Hold ``total`` bytes, or as many as now if these are more.

        Raises:
            ApiError: 429, the app holds as many as it may.
        """
        added = total - FREE_BYTES - self._counted
        if added <= 0:
            return
        if not self._shares[self._priority].take(self._app, added):
            raise _too_many_bytes()
        self._counted += added

    def move_to(self, priority: Priority) -> None:
        """Count the bytes as those of a request of this priority.

        Raises:
            ApiError: 429, the app holds as many of it as it may.
        """
        if priority is self._priority:
            return
        if not self._shares[priority].take(self._app, self._counted):
            raise _too_many_bytes()
        self._shares[self._priority].give_back(self._app, self._counted)
        self._priority = priority

    def release(self) -> None:
        """Hold none."""
        self._shares[self._priority].give_back(self._app, self._counted)
        self._counted = 0


def _too_many_bytes() -> ApiError:
    return rate_limit_error("too many large requests are in progress. Try again in a moment.")
