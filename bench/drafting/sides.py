"""The sides that the drafting bench compares on one engine: which drafters a request gets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from .baselines.ngram_lookup import ngram_map, prompt_lookup
from .baselines.predictor import Baseline, FixedWidthDrafter
from .baselines.suffix_automaton import SuffixAutomatonDecoding
from .baselines.suffix_decoding import SuffixDecoding
from .baselines.token_recycling import TokenRecycling

if TYPE_CHECKING:
    from agentrt.runtime.drafting.drafter import Drafter
    from agentrt.runtime.request.request import Request
    from agentrt.runtime.scheduler.draft import Draft

OURS: Final = "ours"
VANILLA: Final = "vanilla"
PROMPT_LOOKUP: Final = "PLD"
SAM: Final = "SAM"
SUFFIX_DECODING: Final = "SuffixDecoding"
NGRAM_MAP: Final = "n-gram map"
TOKEN_RECYCLING: Final = "Token Recycling"


class Side:
    """How requests are drafted for; not at all, unless a subclass says otherwise."""

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


class Vanilla(Side):
    """Decoding one token after the other."""


class BaselineSide(Side):
    """A published way to draft; the engine verifies all that it drafts."""

    verifies_all = True

    def __init__(self, name: str, begin: Callable[[], Baseline]) -> None:
        """``begin`` returns the baseline of an app without history."""
        self.name = name
        self._begin = begin
        self._baseline = begin()

    def begin_app(self) -> None:
        """See :meth:`Side.begin_app`."""
        self._baseline = self._begin()

    def drafters(self, request: Request, own: Sequence[Drafter]) -> Sequence[Drafter]:
        """See :meth:`Side.drafters`."""
        return [FixedWidthDrafter(self._baseline(request.prompt_token_ids))]


class Ours(Side):
    """The runtime's own drafters."""

    name = OURS
    follows_grammar = True

    def __init__(self) -> None:
        """Begin without history."""
        self.begin_app()

    def begin_app(self) -> None:
        """See :meth:`Side.begin_app`."""
        from agentrt.runtime.drafting.app_history import AppHistories

        self.histories = AppHistories()

    def drafters(self, request: Request, own: Sequence[Drafter]) -> Sequence[Drafter]:
        """See :meth:`Side.drafters`: its own."""
        return own


class OursAtWidth(Ours):
    """The runtime's own drafters, of whose drafts the first ``width`` tokens are verified, likely or not."""

    follows_grammar = False
    verifies_all = True

    def __init__(self, width: int, vocabulary_size: int) -> None:
        """The scheduler chooses nothing: this is what the drafts are worth, not what is verified of them."""
        super().__init__()
        self.name = f"{OURS}, {width} tokens"
        self._width = width
        self._vocabulary_size = vocabulary_size

    def drafters(self, request: Request, own: Sequence[Drafter]) -> Sequence[Drafter]:
        """See :meth:`Side.drafters`."""
        return [_FirstTokens(own, self._width, self._vocabulary_size)]


class _FirstTokens:
    """The first tokens of the best draft of several drafters, all of which are verified."""

    def __init__(self, drafters: Sequence[Drafter], width: int, vocabulary_size: int) -> None:
        from agentrt.runtime.drafting.drafter import DraftSources
        from agentrt.runtime.scheduler.draft import Draft

        self._sources = DraftSources(drafters, vocabulary_size)
        self.observe = self._sources.observe
        self.append = self._sources.append
        self._width = width
        self._new_draft = Draft

    def draft(self) -> Draft:
        tokens = self._sources.draft().tokens[: self._width]
        return self._new_draft(tokens, (1.0,) * len(tokens))


NEEDED: Final = (VANILLA, PROMPT_LOOKUP, SAM, SUFFIX_DECODING, OURS)
"""The sides whose answers figures and tables need, by name."""


def baselines() -> list[Side]:
    """Return a new side for each baseline."""
    return [
        BaselineSide(PROMPT_LOOKUP, lambda: prompt_lookup),
        BaselineSide(SAM, SuffixAutomatonDecoding),
        BaselineSide(SUFFIX_DECODING, SuffixDecoding),
        BaselineSide(NGRAM_MAP, lambda: ngram_map),
        BaselineSide(TOKEN_RECYCLING, TokenRecycling),
    ]
