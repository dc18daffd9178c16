"""Sampling: from logits to the next token, by penalties, temperature, and noise that is a seed's."""

from __future__ import annotations

import hashlib
import math
import secrets
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from agentrt.errors import LogitsError

from ..request.sampling_params import SamplingParams
from ..structured_output.grammar_matcher import GrammarMatcher
from .logprobs import Logits, TokenLogprobs, token_logprobs

_LEAST_LOG_WEIGHT: Final = -40.0
"""Tokens that are e^40 times less likely than the likeliest one are not sampled: all together they would be
in one of 10^12 samples."""


class TokenSampler:
    """Samples the tokens of one sequence.

    Random numbers depend on the seed, the number of tokens sampled before, and the token: neither the batch
    nor the last bits of other logits change the tokens.
    """

    def __init__(
        self,
        params: SamplingParams,
        vocabulary_size: int,
        prompt: Sequence[int],
        grammar_matcher: GrammarMatcher | None = None,
    ) -> None:
        """``prompt`` are the tokens before the answer, which the repetition penalty counts."""
        self._params = params
        self._grammar_matcher = grammar_matcher
        self._seed = secrets.randbits(64) if params.seed is None else params.seed
        self._step = 0
        self._bias_ids = np.fromiter(params.logit_bias.keys(), np.int64)
        self._bias = np.fromiter(params.logit_bias.values(), np.float32)
        penalised = params.repetition_penalty != 1.0 or params.frequency_penalty or params.presence_penalty
        self._penalties = Penalties(params, vocabulary_size, prompt) if penalised else None
        self._uses_raw_logits = self._penalties is None and not len(self._bias_ids)
        self.logprobs: list[TokenLogprobs] = []
        """One entry per sampled token, if the request asks for them; empty otherwise."""
        self.takes_argmax = (
            not params.temperature
            and self._uses_raw_logits
            and grammar_matcher is None
            and params.logprobs is None
        )
        """Whether :meth:`sample` is a plain argmax, which is faster for all rows of a batch at once."""

    def sample(self, logits: Logits) -> int:
        """Sample from the ``[vocabulary]`` logits of the last position; they are not changed.

        Raises:
            LogitsError: the model computed NaN or an infinity, or every token that the grammar allows has
                a logit of -inf.
        """
        token = _finite_argmax(logits, "the model computed NaN or an infinity")
        if not self._is_greedy_choice(token):
            token = self._choose(self._adjust(logits))
        if self._penalties is not None:
            self._penalties.add_sampled(token)
        if self._grammar_matcher is not None:
            self._grammar_matcher.accept_token(token)
        if self._params.logprobs is not None:
            self.logprobs.append(token_logprobs(logits, token, self._params.logprobs))
        return token

    def extend_prompt(self, tokens: Sequence[int]) -> None:
        """Note ``tokens`` that were appended without being sampled; the grammar starts again."""
        if self._penalties is not None:
            self._penalties.add_given(tokens)
        if self._grammar_matcher is not None:
            self._grammar_matcher.reset()

    def _is_greedy_choice(self, likeliest: int) -> bool:
        """Whether greedy decoding takes the model's likeliest token. The logits then need no mask."""
        if self._params.temperature or not self._uses_raw_logits:
            return False
        matcher = self._grammar_matcher
        return matcher is None or not matcher.active or matcher.allows(likeliest)

    def _adjust(self, logits: Logits) -> Logits:
        """Apply grammar, biases and penalties, which greedy decoding uses as well."""
        if self._grammar_matcher is not None and self._grammar_matcher.active:
            logits = self._grammar_matcher.mask_logits(logits)
        if self._uses_raw_logits:
            return logits
        logits = logits.copy()
        logits[self._bias_ids] += self._bias
        if self._penalties is not None:
            self._penalties.apply(logits)
        return logits

    def _choose(self, logits: Logits) -> int:
        likeliest = _finite_argmax(logits, "no token that the request allows has a finite logit")
        if not self._params.temperature:
            return likeliest
        ids, log_weights = _candidates(logits, self._params)
        noise = gumbel_noise(self._seed, self._step, ids)
        self._step += 1
        return int(ids[(log_weights + noise).argmax()])


def _finite_argmax(logits: Logits, problem: str) -> int:
    """Return the likeliest token. A NaN or an infinity among the logits would be the likeliest.

    Raises:
        LogitsError: ``problem``, its logit is not finite.
    """
    token = int(logits.argmax())
    if not math.isfinite(logits[token]):
        raise LogitsError(problem)
    return token


def _candidates(logits: Logits, params: SamplingParams) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the tokens that temperature, top-k, top-p and min-p leave, and the logarithms of their weights.

    The likeliest token has weight 1.
    """
    ids = np.arange(len(logits))
    if 0 < params.top_k < len(logits):
        ids = np.argpartition(logits, -params.top_k)[-params.top_k :]
    below = logits[ids].astype(np.float64)
    below -= below.max()  # before the division, so that the likeliest token stays 0 at any temperature
    with np.errstate(over="ignore"):
        log_weights = below / params.temperature
    likely = log_weights >= _LEAST_LOG_WEIGHT
    ids, log_weights = ids[likely], log_weights[likely]
    if params.top_p < 1.0:
        order = np.argsort(-log_weights)
        # The token that crosses the threshold is kept, so at least one is.
        cumulative = np.cumsum(np.exp(log_weights[order]))
        keep = order[: int(np.searchsorted(cumulative, params.top_p * cumulative[-1])) + 1]
        ids, log_weights = ids[keep], log_weights[keep]
    if params.min_p > 0.0:
        likely = log_weights >= np.log(params.min_p)
        ids, log_weights = ids[likely], log_weights[likely]
    return ids, log_weights


def sample_batch(samplers: Sequence[TokenSampler | None], logits: Logits) -> list[int | Exception]:
    """Sample one token per sampler from ``[samplers, vocabulary]`` logits.

    Where a sampler raises, the result is its error, so that only its request fails. The result for None is
    undefined.
    """
    if all(sampler is None or sampler.takes_argmax for sampler in samplers):
        tokens: list[int] = logits.argmax(axis=-1).tolist()
        # One by one: indexing by an array costs more than a decode step's few rows.
        if all(map(math.isfinite, map(logits.item, range(len(tokens)), tokens))):
            return [*tokens]
    return [
        0 if sampler is None else _sample_or_error(sampler, row)
        for sampler, row in zip(samplers, logits, strict=True)
    ]


def _sample_or_error(sampler: TokenSampler, row: Logits) -> int | Exception:
    try:
        return sampler.sample(row)
    except Exception as error:  # noqa: BLE001 - it ends the request of this sampler
        return error


_INCREMENT: Final = np.uint64(0x9E3779B97F4A7C15)
_FIRST_FACTOR: Final = np.uint64(0xBF58476D1CE4E5B9)
_SECOND_FACTOR: Final = np.uint64(0x94D049BB133111EB)


def gumbel_noise(seed: int, step: int, ids: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return one number for each token of ``ids``, drawn from the standard Gumbel distribution.

    The token with the largest sum of logit and noise is a sample of the softmax (Gumbel-max). A generator
    whose numbers are taken in order would give every token behind a candidate that appears or vanishes
    another number; here they are SplitMix64's at the places ``ids`` of a stream for ``seed`` and ``step``.
    """
    stream = hashlib.blake2b(f"{seed} {step}".encode(), digest_size=8).digest()
    mixed = np.uint64(int.from_bytes(stream, "little")) + ids.astype(np.uint64) * _INCREMENT
    mixed = (mixed ^ (mixed >> np.uint64(30))) * _FIRST_FACTOR
    mixed = (mixed ^ (mixed >> np.uint64(27))) * _SECOND_FACTOR
    mixed ^= mixed >> np.uint64(31)
    uniform = ((mixed >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53  # neither 0 nor 1
    noise: NDArray[np.float64] = -np.log(-np.log(uniform))
    return noise


class Penalties:
    """The penalties of one sequence, in which tokens occur one after the other.

    The repetition penalty counts tokens of the prompt and of the answer, as other local engines do. The
    frequency and presence penalties count those of the answer only, as OpenAI defines them: a token that was
    sampled ``count`` times loses ``count * frequency_penalty + presence_penalty``.
    """

    def __init__(self, params: SamplingParams, vocabulary_size: int, prompt: Sequence[int]) -> None:
        """The request has this ``prompt``."""
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
