"""Penalties of tokens that have occurred: repetition, frequency and presence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ..request.sampling_params import SamplingParams
from .logprobs import Logits


class Penalties:
    """The penalties of one sequence, in which tokens occur one after the other.

    The repetition penalty counts tokens of the prompt and of the answer, as other local engines do. The
    frequency and presence penalties count those of the answer only, as OpenAI defines them: a token that was
    sampled ``count`` times loses ``count * frequency_penalty + presence_penalty``.
    """

    def __init__(self, params: SamplingParams, vocabulary_size: int, prompt: Sequence[int]) -> None:
        """See :meth:`of`."""
        self._repetition = np.float32(params.repetition_penalty)
        self._frequency = params.frequency_penalty
        self._presence = params.presence_penalty
        self._occurred: NDArray[np.bool_] | None = None
        if params.repetition_penalty != 1.0:
            self._occurred = np.zeros(vocabulary_size, np.bool_)
            self._occurred[list(prompt)] = True
        self._counts: dict[int, int] = {}
        self._subtracted: NDArray[np.float32] | None = None
        if self._frequency or self._presence:
            self._subtracted = np.zeros(vocabulary_size, np.float32)

    @classmethod
    def of(cls, params: SamplingParams, vocabulary_size: int, prompt: Sequence[int]) -> Self | None:
        """Return the penalties of a request with this ``prompt``; None if it has none."""
        penalised = (
            params.repetition_penalty != 1.0 or params.frequency_penalty != 0 or params.presence_penalty != 0
        )
        return cls(params, vocabulary_size, prompt) if penalised else None

    def apply(self, logits: Logits) -> None:
        """Change the ``[vocabulary]`` logits of the next token."""
        if self._occurred is not None:
            seen = logits[self._occurred]
            with np.errstate(over="ignore"):
                logits[self._occurred] = np.where(seen > 0, seen / self._repetition, seen * self._repetition)
        if self._subtracted is not None:
            logits -= self._subtracted

    def add_sampled(self, token: int) -> None:
        """Note a token of the answer."""
        if self._occurred is not None:
            self._occurred[token] = True
        if self._subtracted is not None:
            self._counts[token] = count = self._counts.get(token, 0) + 1
            # From the count: a sum of differences would collect rounding errors.
            self._subtracted[token] = count * self._frequency + self._presence

    def add_given(self, tokens: Sequence[int]) -> None:
        """Note tokens that were appended without being sampled."""
        if self._occurred is not None:
            self._occurred[list(tokens)] = True
