"""Which calls have been guessed before, and by how many."""

from __future__ import annotations

from contextlib import suppress

from agentrt.calls import ToolCall, canonical_key
from agentrt.errors import InvalidRequestError


class Agreement:
    """Tells new guesses from repeated ones, and counts who made them."""

    def __init__(self, enough: int | None) -> None:
        """Agreement is reached when ``enough`` have made one and the same guess, or never."""
        self._enough = enough
        self._by_key: dict[str, set[int]] = {}
        self.reached = False

    def is_new(self, call: ToolCall, voter: int) -> bool:
        """Count the guess of ``voter``; False for one that was made before, and for one that has no key."""
        with suppress(InvalidRequestError):
            key = canonical_key(call.name, call.arguments)
            is_new = key not in self._by_key
            voters = self._by_key.setdefault(key, set())
            voters.add(voter)
            self.reached |= self._enough is not None and len(voters) >= self._enough
            return is_new
        return False
