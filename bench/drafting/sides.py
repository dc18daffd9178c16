"""The sides that the drafting bench compares on one engine: which drafters a request gets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from .baselines import Baseline, FixedWidthDrafter, SuffixAutomatonDecoding, SuffixDecoding

if TYPE_CHECKING:
    from agentrt.runtime.drafting.drafter import Drafter
    from agentrt.runtime.request.request import Request

OURS: Final = "ours"
VANILLA: Final = "vanilla"
SAM: Final = "SAM"
SUFFIX_DECODING: Final = "SuffixDecoding"


class Vanilla:
    """How requests are drafted for: not at all, unless a subclass says otherwise."""

    name = VANILLA
    histories: Any = None
    """What takes the place of the runtime's histories of apps; None for no history."""
    follows_grammar = False
    """Whether drafts are completed by what the grammar of an answer forces."""
    verifies_all = False
    """Whether all that is drafted is verified, rather than what the scheduler chooses."""

    def begin_app(self) -> None:
        """Forget all earlier requests: the next ones are of an app that has none."""

    def drafters(self, request: Request, own: Sequence[Drafter]) -> Sequence[Drafter]:
        """Return the drafters of one request, for which the runtime selects its ``own``."""
        return []


class BaselineSide(Vanilla):
    """A published way to draft; the engine verifies all that it drafts."""

    verifies_all = True

    def __init__(self, name: str, begin: Callable[[], Baseline]) -> None:
        """``begin`` returns the baseline of an app without history."""
        self.name = name
        self._begin = begin
        self._baseline = begin()

    def begin_app(self) -> None:
        self._baseline = self._begin()

    def drafters(self, request: Request, own: Sequence[Drafter]) -> Sequence[Drafter]:
        return [FixedWidthDrafter(self._baseline(request.prompt_token_ids))]


class Ours(Vanilla):
    """The runtime's own drafters."""

    name = OURS
    follows_grammar = True

    def __init__(self) -> None:
        self.begin_app()

    def begin_app(self) -> None:
        from agentrt.runtime.drafting.app_history import AppHistories

        self.histories = AppHistories()

    def drafters(self, request: Request, own: Sequence[Drafter]) -> Sequence[Drafter]:
        """See :meth:`Vanilla.drafters`: its own."""
        return own


def baselines() -> list[Vanilla]:
    """Return a new side for each baseline."""
    return [
        BaselineSide(SAM, SuffixAutomatonDecoding),
        BaselineSide(SUFFIX_DECODING, SuffixDecoding),
    ]
