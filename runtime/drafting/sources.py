"""Several sources of drafts for one sequence."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from .drafter import NO_DRAFT, Draft, Drafter

logger = logging.getLogger(__name__)

T = TypeVar("T")


class DraftSources(Drafter):
    """Drafts what the source drafts of which the most tokens are expected to be accepted.

    A source that raises, or drafts tokens outside the vocabulary, is used no more; the others go on.
    """

    def __init__(self, sources: Sequence[Drafter], vocabulary_size: int) -> None:
        """Of equally good drafts that of the first of ``sources`` is taken."""
        self._sources = list(sources)
        self._vocabulary_size = vocabulary_size

    def observe(self, verified: Sequence[int], logits: NDArray[np.float32]) -> None:
        """See :meth:`Drafter.observe`."""
        for source in list(self._sources):
            self._call(source, partial(source.observe, verified, logits))

    def append(self, token: int) -> None:
        """See :meth:`Drafter.append`."""
        for source in list(self._sources):
            self._call(source, partial(source.append, token))

    def draft(self) -> Draft:
        """See :meth:`Drafter.draft`."""
        best, most = NO_DRAFT, 0.0
        for source in list(self._sources):
            draft = self._call(source, partial(self._checked_draft, source))
            if draft is not None and (expected := draft.expected_tokens) > most:
                best, most = draft, expected
        return best

    def _checked_draft(self, source: Drafter) -> Draft:
        draft = source.draft()
        outside = [token for token in draft.tokens if not 0 <= token < self._vocabulary_size]
        if outside:
            raise ValueError(f"it drafted token {outside[0]} of a vocabulary of {self._vocabulary_size}")
        return draft

    def _call(self, source: Drafter, function: Callable[[], T]) -> T | None:
        try:
            return function()
        except Exception:
            name = type(source).__name__
            logger.warning("%s failed; this answer goes on without its drafts.", name, exc_info=True)
            self._sources.remove(source)
            return None
