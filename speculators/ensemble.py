"""Several predictors as one: the first to make a guess wins."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing

from agentrt.calls import ToolCall
from agentrt.concurrency.merge import merge
from agentrt.drafts import DraftRequest, Learner, Speculator, looks_ahead
from agentrt.errors import ConfigurationError

from .agreement import Agreement


class EnsembleSpeculator:
    """Asks all ``members`` at once and yields each different call when the first of them has guessed it.

    A member that fails does not disturb the others; its error is raised when all have ended. To have each
    predictor weighed, skipped and reported on its own, give a session the predictors themselves instead.
    """

    def __init__(self, members: Sequence[Speculator], *, agreement: int | None = None) -> None:
        """Once ``agreement`` members have guessed the same call, the others are no longer waited for.

        Raises:
            ConfigurationError: there is no member, or ``agreement`` is below 1.
        """
        if not members or (agreement is not None and agreement < 1):
            raise ConfigurationError("an ensemble needs at least one member, and an agreement of at least 1.")
        self._members = tuple(members)
        self._agreement = agreement
        self.looks_ahead = any(map(looks_ahead, members))
        names = (getattr(member, "name", type(member).__name__) for member in members)
        self.name = f"ensemble of {', '.join(names)}"

    async def drafts(self, request: DraftRequest) -> AsyncIterator[ToolCall]:
        """Yield the members' guesses as they come, each call once."""
        agreement = Agreement(self._agreement)
        asked = [member for member in self._members if looks_ahead(member) or not request.ahead]
        guessed = merge([_drafts(member, request) for member in asked], errors_last=True)
        async with aclosing(guessed):
            async for member, call in guessed:
                if agreement.is_new(call, member):
                    yield call
                if agreement.reached:
                    return

    def learn(self, request: DraftRequest, calls: Sequence[ToolCall]) -> None:
        """Teach the members that learn."""
        for member in self._members:
            if isinstance(member, Learner):
                member.learn(request, calls)


async def _drafts(member: Speculator, request: DraftRequest) -> AsyncIterator[ToolCall]:
    # A generator of our own, so that a member whose method itself raises fails as one whose iterator does.
    async for call in member.drafts(request):
        yield call
