"""The limit on requests in progress."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .errors import rate_limit_error


class Admission:
    """Counts the requests in progress and refuses those above a limit. For one event loop."""

    def __init__(self, limit: int) -> None:
        """``limit`` is the number of requests that may be in progress at once."""
        self._limit = limit
        self.active = 0
        """Requests in progress."""

    @contextmanager
    def admit(self) -> Iterator[None]:
        """Count one request as in progress until the block ends.

        Raises:
            ApiError: 429, the limit is reached.
        """
        if self.active >= self._limit:
            raise rate_limit_error(f"{self._limit} requests are in progress. Try again in a moment.")
        self.active += 1
        try:
            yield
        finally:
            self.active -= 1
