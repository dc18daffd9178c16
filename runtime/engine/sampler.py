"""Sampling: from logits to the next token."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..request.sampling_params import SamplingParams
from ..structured_output.grammar_matcher import GrammarMatcher
from .logprobs import Logits, TokenLogprobs, token_logprobs


class TokenSampler:
    """Samples the tokens of one sequence.

    Each sampler has a random generator of its own, so that the batch does not change the tokens.
    """

    def __init__(
        self,
        params: SamplingParams,
        vocabulary_size: int,
        prompt: Sequence[int],
        grammar_matcher: GrammarMatcher | None = None,
    ) -> None:
        """The repetition penalty counts the tokens of ``prompt`` as having occurred."""
        self._params = params
        self._grammar_matcher = grammar_matcher
        self._random = np.random.default_rng(params.seed) if params.temperature else None
        self._bias_ids = np.fromiter(params.logit_bias.keys(), np.int64)
        self._bias = np.fromiter(params.logit_bias.values(), np.float32)
        self._occurred: NDArray[np.bool_] | None = None
        if params.repetition_penalty != 1.0:
            self._occurred = np.zeros(vocabulary_size, np.bool_)
            self._occurred[list(prompt)] = True
        self._uses_raw_logits = self._occurred is None and not len(self._bias_ids)
        self.logprobs: list[TokenLogprobs] = []
        """One entry per sampled token, if the request asks for them; empty otherwise."""
        self.takes_argmax = (
            self._random is None
            and self._uses_raw_logits
            and grammar_matcher is None
            and params.logprobs is None
        )
        """Whether :meth:`sample` is a plain argmax, which is faster for all rows of a batch at once."""

    def sample(self, logits: Logits) -> int:
        """Sample from the ``[vocabulary]`` logits of the last position; they are not changed."""
        token = self._unmasked_argmax(logits)
        if token is None:
            token = self._choose(self._adjust(logits))
        if self._occurred is not None:
            self._occurred[token] = True
        if self._grammar_matcher is not None:
            self._grammar_matcher.accept_token(token)
        if self._params.logprobs is not None:
            self.logprobs.append(token_logprobs(logits, token, self._params.logprobs))
        return token

    def extend_prompt(self, tokens: Sequence[int]) -> None:
        """Note ``tokens`` that were appended without being sampled; the grammar starts again."""
        if self._occurred is not None:
            self._occurred[list(tokens)] = True
        if self._grammar_matcher is not None:
            self._grammar_matcher.reset()

    def _unmasked_argmax(self, logits: Logits) -> int | None:
        """Return the token of greedy decoding if the grammar allows the likeliest one: no mask is needed."""
        if self._random is not None or not self._uses_raw_logits:
            return None
        token = int(logits.argmax())
        matcher = self._grammar_matcher
        return token if matcher is None or not matcher.active or matcher.allows(token) else None

    def _adjust(self, logits: Logits) -> Logits:
        """Apply grammar, biases and repetition penalty, which greedy decoding uses as well."""
        if self._grammar_matcher is not None and self._grammar_matcher.active:
            logits = self._grammar_matcher.mask_logits(logits)
        if self._uses_raw_logits:
            return logits
        logits = logits.copy()
        logits[self._bias_ids] += self._bias
        if self._occurred is not None:
            seen = logits[self._occurred]
            penalty = np.float32(self._params.repetition_penalty)
            logits[self._occurred] = np.where(seen > 0, seen / penalty, seen * penalty)
        return logits

    def _choose(self, logits: Logits) -> int:
        if self._random is None:
            return int(logits.argmax())
        ids, weights = _candidates(logits, self._params)
        cumulative = np.cumsum(weights)
        position = np.searchsorted(cumulative, self._random.random() * cumulative[-1], side="right")
        # The product may round up to the end of the last interval.
        return int(ids[min(int(position), len(ids) - 1)])


def _candidates(logits: Logits, params: SamplingParams) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the tokens that temperature, top-k, top-p and min-p leave, and their relative weights."""
    ids = np.arange(len(logits))
    if 0 < params.top_k < len(logits):
        ids = np.argpartition(logits, -params.top_k)[-params.top_k :]
    below = logits[ids].astype(np.float64)
    below -= below.max()  # before the division, so that the likeliest token stays 0 at any temperature
    with np.errstate(over="ignore"):
        weights = np.exp(below / params.temperature)
    if params.top_p < 1.0:
        order = np.argsort(-weights)
        ids, weights = ids[order], weights[order]
        # The token that crosses the threshold is kept, so at least one is.
        cumulative = np.cumsum(weights)
        keep = int(np.searchsorted(cumulative, params.top_p * cumulative[-1])) + 1
        ids, weights = ids[:keep], weights[:keep]
    if params.min_p > 0.0:
        likely = weights >= params.min_p  # the likeliest token has weight 1
        ids, weights = ids[likely], weights[likely]
    return ids, weights


def sample_batch(samplers: Sequence[TokenSampler | None], logits: Logits) -> list[int | Exception]:
    """Sample one token per sampler from ``[samplers, vocabulary]`` logits.

    Where a sampler raises, the result is its error, so that only its request fails. The result for None is
    undefined.
    """
    if all(sampler is None or sampler.takes_argmax for sampler in samplers):
        return logits.argmax(axis=-1).tolist()  # type: ignore[no-any-return]
    return [
        0 if sampler is None else _sample_or_error(sampler, row)
        for sampler, row in zip(samplers, logits, strict=True)
    ]


def _sample_or_error(sampler: TokenSampler, row: Logits) -> int | Exception:
    try:
        return sampler.sample(row)
    except Exception as error:  # noqa: BLE001 - it ends the request of this sampler
        return error
