"""Several sources of drafts for one sequence."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ..scheduler.draft import NO_DRAFT, Draft
from .drafter import DraftCompleter, Drafter

logger = logging.getLogger(__name__)

T = TypeVar("T")


class DraftSources(Drafter):
    """Drafts what the source drafts of which the most tokens are expected to be accepted.

    A source that raises, or drafts tokens outside the vocabulary, is used no more; the others go on.
    """

    def __init__(
        self, sources: Sequence[Drafter], vocabulary_size: int, completer: DraftCompleter | None = None
    ) -> None:
        """Of equally good drafts that of the first of ``sources`` is taken.

        ``completer`` completes each draft, and the empty one, before they are compared.
        """
        self._sources = list(sources)
        self._vocabulary_size = vocabulary_size
        self._completers = [] if completer is None else [completer]

    def observe(self, verified: Sequence[int], logits: NDArray[np.float32]) -> None:
        """See :meth:`Drafter.observe`."""
        for source in list(self._sources):
            self._call(source, partial(source.observe, verified, logits))

    def append(self, token: int) -> None:
        """See :meth:`Drafter.append`."""
        sources: list[Drafter | DraftCompleter] = [*self._sources, *self._completers]
        for source in sources:
            self._call(source, partial(source.append, token))

    def draft(self) -> Draft:
        """See :meth:`Drafter.draft`."""
        drafts = [self._call(source, partial(self._checked_draft, source)) for source in list(self._sources)]
        found = [draft for draft in drafts if draft is not None]
        for completer in self._completers:
            completed = self._call(completer, partial(_complete_all, completer, found))
            found = found if completed is None else completed
        return max(found, key=_expected_tokens, default=NO_DRAFT)

    def _checked_draft(self, source: Drafter) -> Draft:
        draft = source.draft()
        outside = [token for token in draft.tokens if not 0 <= token < self._vocabulary_size]
        if outside:
            raise ValueError(f"it drafted token {outside[0]} of a vocabulary of {self._vocabulary_size}")
        return draft

    def _call(self, source: Drafter | DraftCompleter, function: Callable[[], T]) -> T | None:
        try:
            return function()
        except Exception:
            name = type(source).__name__
            logger.warning("%s failed; this answer goes on without its drafts.", name, exc_info=True)
            self._sources = [each for each in self._sources if each is not source]
            self._completers = [each for each in self._completers if each is not source]
            return None


def _complete_all(completer: DraftCompleter, drafts: Sequence[Draft]) -> list[Draft]:
    return [completer.complete(draft) for draft in (*(each for each in drafts if each.tokens), NO_DRAFT)]


def _expected_tokens(draft: Draft) -> float:
    return draft.expected_tokens
