"""What drafts tokens for a sequence, for the model to verify several in one forward pass (sd.npu §2.2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ..scheduler.draft import Draft


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

    def observe(self, verified: Sequence[int], logits: NDArray[np.float32]) -> None:
        """See the logits of a forward pass before its tokens are sampled.

        ``logits``, ``[1 + verified, vocabulary]``, are those behind the last token of the sequence and behind
        each of the draft tokens ``verified``, also behind those that will be rejected. They must not be
        changed, and are only valid during the call.
        """
        ...

    def append(self, token: int) -> None:
        """Note a sampled token.

        Called once per token of the answer, in order, including accepted draft tokens, but not for end tokens
        and the tokens of tool outputs.
        """
        ...

    def draft(self) -> Draft:
        """Return the tokens that may follow what was appended; an empty draft if nothing is likely.

        Only the first :data:`~agentrt.runtime.scheduler.draft.MAX_DRAFT_TOKENS` tokens are used.
        """
        ...


class DraftCompleter(Protocol):
    """Corrects drafts of one sequence. Called on the engine thread only, and must be quick."""

    def append(self, token: int) -> None:
        """Note a sampled token: see :meth:`Drafter.append`."""
        ...

    def complete(self, draft: Draft) -> Draft:
        """Return ``draft`` up to the first token that cannot follow, and what is likely to follow it.

        Also completes an empty draft.
        """
        ...
