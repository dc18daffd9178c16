"""Counting which samples or predictors made the same call."""

from __future__ import annotations

from contextlib import suppress

from agentrt.calls import ToolCall, canonical_key
from agentrt.errors import InvalidRequestError


class CallVotes:
    """The calls predicted so far in one turn, and who predicted each."""

    def __init__(self, agreement: int | None) -> None:
        """``agreement`` is how many must predict the same call for agreement; None: there is none."""
        self._agreement = agreement
        self._voters: dict[str, set[int]] = {}
        self.agreed = False
        """Whether some call has been predicted by ``agreement`` voters."""

    def add(self, call: ToolCall, voter: int) -> bool:
        """Count a vote; return whether the call is new. A call without a canonical key is not."""
        with suppress(InvalidRequestError):
            key = canonical_key(call.name, call.arguments)
            is_new = key not in self._voters
            voters = self._voters.setdefault(key, set())
            voters.add(voter)
            self.agreed |= self._agreement is not None and len(voters) >= self._agreement
            return is_new
        return False
