"""`EnsembleSpeculator`: several predictors as one, and the votes of samples and predictors for calls."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, suppress

from agentrt.calls import ToolCall, canonical_key
from agentrt.concurrency.merge import merge
from agentrt.drafts import (
    DraftRequest,
    Speculator,
    drafts_of,
    learner_of,
    looks_ahead,
    name_of,
    predictors_of,
    reads_calls,
    shares_cores,
)
from agentrt.errors import ConfigurationError, InvalidRequestError


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


class EnsembleSpeculator:
    """Runs all ``members`` at once and yields each different call when the first of them predicts it.

    A member that fails does not disturb the others; its error is raised when all have ended. To have each
    predictor weighed, skipped and reported on its own, give a session the predictors themselves instead.
    """

    def __init__(self, members: Sequence[Speculator], *, agreement: int | None = None) -> None:
        """When ``agreement`` members have predicted the same call, the others are cancelled.

        Raises:
            ConfigurationError: there is no member, one is no predictor or reads calls off the answer, or
                ``agreement`` is below 1.
        """
        given = predictors_of(members)
        if any(map(reads_calls, given)):
            raise ConfigurationError(
                "an ensemble cannot hold a predictor that reads calls off the answer. Give it to the session "
                "or adapter beside the ensemble."
            )
        if not given or (agreement is not None and agreement < 1):
            raise ConfigurationError(
                "an ensemble has members. Give at least one, and an agreement of at least 1."
            )
        self._members = given
        self._agreement = agreement
        self.looks_ahead = any(map(looks_ahead, given))
        self.shares_cores = any(map(shares_cores, given))
        names = map(name_of, given)
        self.name = f"ensemble of {', '.join(names)}"

    async def drafts(self, request: DraftRequest) -> AsyncIterator[ToolCall]:
        """Yield the members' drafts as they come, each call once."""
        votes = CallVotes(self._agreement)
        able = [member for member in self._members if looks_ahead(member) or not request.ahead]
        drafts = merge([_drafts(member, request) for member in able], errors_last=True)
        async with aclosing(drafts):
            async for member, call in drafts:
                # What is no call is no vote: whoever runs the drafts reports it.
                if not isinstance(call, ToolCall) or votes.add(call, member):
                    yield call
                if votes.agreed:
                    return

    def learn(self, request: DraftRequest, calls: Sequence[ToolCall]) -> None:
        """Pass the main model's calls to the members that learn."""
        for member in self._members:
            learner = learner_of(member)
            if learner is not None:
                learner.learn(request, calls)


async def _drafts(member: Speculator, request: DraftRequest) -> AsyncIterator[ToolCall]:
    # A generator of our own, so that a member whose method itself raises fails as one whose iterator does.
    async for call in drafts_of(member, request):
        yield call
