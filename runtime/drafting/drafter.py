"""What drafts tokens for a sequence, for the model to verify several in one forward pass (sd.npu §2.2)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from ..scheduler.draft import NO_DRAFT, Draft

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

logger = logging.getLogger(__name__)

T = TypeVar("T")


class Drafter(Protocol):
    """Drafts the next tokens of one sequence. Called on the engine thread only, and must be quick.

    Drafts change the number of forward passes, never the tokens: the model verifies all draft tokens in one
    forward pass, and every token is sampled as without a draft. A draft token that the sampler does not
    choose is discarded, together with those after it. This also holds for sampled answers: the chance that
    a draft token is accepted is its probability. Equal tokens need equal logits, which several tokens at once
    and one at a time give at f32 up to the rounding of another order of the same sum, and at other precisions
    as closely as logits agree between batches of different sizes.

    For each forward pass that samples, :meth:`observe` is called once, :meth:`append` for each sampled token,
    and :meth:`draft` once.
    """

    alternatives: Sequence[Draft] = ()
    """Drafts beside the last one, for a device that verifies several at once (:class:`~.batch.Branch`)."""
    reads_prompt: bool = False
    """Whether :meth:`observe_prompt` is to be called, which takes the time of a row of logits a token."""

    def observe_prompt(self, begin: int, logits: NDArray[np.float32]) -> None:
        """See the logits behind tokens of the prompt, from that at ``begin`` on: ``[tokens, vocabulary]``.

        Called before the first token is sampled, in order, for tokens that are computed: not for those of the
        prefix cache, the last one, and those for which there is no time. Valid during the call only.
        """
        return

    def observe(self, verified: Sequence[int], logits: NDArray[np.float32]) -> None:
        """See the logits of a forward pass before its tokens are sampled; most drafters need none.

        ``logits``, ``[1 + verified, vocabulary]``, are those behind the last token of the sequence and behind
        each of the draft tokens ``verified``, also behind those that will be rejected. They must not be
        changed, and are only valid during the call.
        """
        return

    def append(self, token: int) -> None:
        """Note a sampled token.

        Called once per token of the answer, in order, including accepted draft tokens, but not for end tokens
        and the tokens of tool outputs.
        """

    def draft(self) -> Draft:
        """Return the tokens that may follow what was appended; an empty draft if nothing is likely.

        Only the first :data:`~agentrt.runtime.scheduler.draft.MAX_DRAFT_TOKENS` tokens are used.
        """


class DraftCompleter(Protocol):
    """Corrects drafts of one sequence. Called on the engine thread only, and must be quick."""

    def append(self, token: int) -> None:
        """Note a sampled token: see :meth:`Drafter.append`."""

    def complete(self, draft: Draft) -> Draft:
        """Return ``draft`` up to the first token that cannot follow, and what is likely to follow it.

        Also completes an empty draft.
        """


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

    def observe_prompt(self, begin: int, logits: NDArray[np.float32]) -> None:
        """See :meth:`Drafter.observe_prompt`."""
        for source in [each for each in self._sources if each.reads_prompt]:
            self._call(source, partial(source.observe_prompt, begin, logits))

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
        """See :meth:`Drafter.draft`. The likeliest alternatives are first; none begins another draft."""
        drafts = [self._call(source, partial(self._checked_draft, source)) for source in list(self._sources)]
        found = [draft for draft in drafts if draft is not None]
        for completer in self._completers:
            completed = self._call(completer, partial(_complete_all, completer, found))
            found = found if completed is None else completed
        best = max(found, key=_expected_tokens, default=NO_DRAFT)
        paths = [best]
        found += [each for source in self._sources for each in source.alternatives]
        for each in sorted(found, key=_expected_tokens, reverse=True):
            if not any(path.first(len(each.tokens)).tokens == each.tokens for path in paths):
                paths.append(each)
        self.alternatives = paths[1:]
        return best

    def _checked_draft(self, source: Drafter) -> Draft:
        draft = source.draft()
        for each in (draft, *source.alternatives):
            if outside := [token for token in each.tokens if not 0 <= token < self._vocabulary_size]:
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
