"""The Drafter protocol: draft tokens for speculative decoding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

MAX_DRAFT_TOKENS: Final = 128
"""Maximum number of draft tokens verified at once: a longer batch would delay the other requests."""


class Drafter(Protocol):
    """Drafts the next tokens of one sequence. Called on the engine thread only, and must be quick.

    A draft changes the number of forward passes and nothing else. The model computes all draft tokens in one
    forward pass; the sequence's sampler then samples token by token from their logits, as it would without
    a draft. Draft tokens that are equal to the sampled ones are accepted, and the first that differs ends
    the draft. So a draft needs only to be likely, and the tokens are the same with and without it, also when
    sampling, because the same random numbers meet the same probabilities: in f32 up to the last bits of a
    sum, and at other precisions as closely as logits agree between batches of different sizes.
    """

    def draft(self, token: int) -> Sequence[int]:
        """Take the sampled ``token`` and return the tokens that may follow it, or none.

        Called once per token of the answer, in order, including accepted draft tokens, but not for end tokens
        and the tokens of tool outputs. Only what it returns for the last token of a batch is used, and of
        that the first :data:`MAX_DRAFT_TOKENS`.
        """
        ...
